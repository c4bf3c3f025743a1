"""Probabilities, thresholds and the closer look, fitted to pairs once the network has learnt."""
