"""The closer look at a pair that the network takes for copies: one picture laid over the other, and both compared."""
