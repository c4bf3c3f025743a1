"""From a trained network to an artifact, and from an artifact to scores: graphs, parity, manifest, pictures, runtime.

`graphs`, `parity` and `artifact` import torch; everything else here runs without it.
"""
