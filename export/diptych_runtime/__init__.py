"""An artifact, run: pixels to tokens, tokens to scores. Never torch, never onnx."""

import os

# ONNX Runtime reads it when it is imported. Without it, versions from 1.32 on write an identifier to the user's cache
# and send what ran, and on what machine, to its maker.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
