"""The papers' other networks: language models and BERT, translation, answers about pictures, SAGAN, XCiT."""
