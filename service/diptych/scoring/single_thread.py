"""Imported before NumPy by the server that decoding processes are forked from: neither it nor OpenCV, which has an
OpenBLAS of its own, begins threads there. A picture is decoded on one; and as OpenCV's takes 128 MiB of addresses for
each, on a machine with sixteen cores they alone would be more than a process may take.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
