"""The closer look at a pair that the network takes for copies, and the probability that both make together."""
