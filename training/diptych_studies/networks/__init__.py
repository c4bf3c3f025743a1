"""The papers' networks: ResNets and DenseNets, language models, translation, answers about pictures, SAGAN, XCiT."""
