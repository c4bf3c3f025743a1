"""A checkpoint, written as an artifact: graphs, parity, precision."""

import diptych_runtime  # noqa: F401 - it switches off the telemetry of ONNX Runtime, which modules here import
