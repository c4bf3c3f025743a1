"""Training of the papers' other networks: language models, translation, answers about drawn worlds, and pictures."""
