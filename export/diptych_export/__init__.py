"""A checkpoint, written as an artifact: graphs, parity, precision."""
