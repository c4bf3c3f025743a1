"""Training on drawn worlds: networks that answer questions about them, and networks that make such pictures."""
