"""The aligned-pair network of the closer look, trained on edited copies and look-alikes laid over each other."""
