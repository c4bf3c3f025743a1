"""An artifact, run: pixels to tokens, tokens to scores. Never torch, never onnx."""
