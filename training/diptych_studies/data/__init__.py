"""Data of the papers' other networks: texts and their words, numbers in two languages, drawn worlds."""
