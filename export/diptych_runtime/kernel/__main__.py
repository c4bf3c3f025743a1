"""`python -m diptych_runtime.kernel`: build the kernel, test it, say what came of it."""

import sys

from diptych_runtime.kernel import KernelError, kernel
from diptych_runtime.kernel.build import build


def main() -> int:
    """Build and test."""
    try:
        path = build()
        print(f"built {path}: {kernel().instructions}, self-test passed")
    except KernelError as error:
        print(f"diptych: the kernel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
