"""Work for a decoding process, which imports what it is asked for by its name."""

import re
from pathlib import Path

from diptych_runtime.closer_look import verification


def threads_after_a_look(data: bytes) -> str:
    """The number of threads of this process once it has described a picture for a closer look."""
    assert len(verification.describe(data).keypoints.places)
    return re.findall(r"Threads:\s+(\d+)", Path("/proc/self/status").read_text())[0]
