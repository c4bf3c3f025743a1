"""Duplicates by digest and perceptual hash alone, without a model: a quick pass over very many files."""
