"""Calibration of scores: from a logit to a probability, a threshold and a verdict."""
