"""A recipe whose run takes a second, on the small archives."""

from typing import Any

SCALES = [{"n": 1, "m": 1, "heads": 1, "d_a": 6, "d_o": 6}] * 3 + [{"n": 3, "m": 3, "heads": 1, "d_a": 6, "d_o": 6}]
SMALL: dict[str, Any] = {
    "name": "small",
    "network": {
        "pixels": 32,
        "encoder": {"kind": "residual", "widths": [8, 12], "depths": [1, 1]},
        "width": 12,
        "embedding": 8,
        "blocks": 1,
        "mixer": {"kind": "msac", "crossing": 3.0, "scales": SCALES},
    },
    "learning": {"warmup": 2, "bfloat16": False, "average": 0.5, "link": 0.5},
    "tasks": [
        {"kind": "copy", "queries": 12},
        {"kind": "catalogue", "queries": 4, "weight": 0.5},
        {"kind": "instance", "queries": 2, "weight": 0.5},
    ],
    "stages": [
        {"pixels": 16, "steps": 2, "relate": False},
        {"pixels": 16, "steps": 1, "negatives": 3, "easy": 1, "frozen": True},
        {"pixels": 32, "steps": 3, "negatives": 3, "easy": 1},
    ],
    "mine_every": 2,
    "validate_every": 3,
    "checkpoint_every": 2,
    "threads": 1,
}
