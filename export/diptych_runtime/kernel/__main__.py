"""`python -m diptych_runtime.kernel`: build the kernel, test it, say what came of it."""

import sys

from diptych_runtime.kernel import KernelError, load_kernel
from diptych_runtime.kernel.build import build_library


def main() -> int:
    """Build and test."""
    try:
        path = build_library()
        print(f"built {path}: {load_kernel().instructions}, self-test passed")
    except KernelError as error:
        print(f"diptych: the kernel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
