import subprocess
import sys

import pytest

# Eight threads that hold memory at once, then the number of glibc's heaps.
HEAPS = """
import ctypes, threading
from diptych.cli.options import share_one_heap
share_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.open_memstream.restype = ctypes.c_void_p
libc.malloc_info.argtypes = (ctypes.c_int, ctypes.c_void_p)
libc.fclose.argtypes = (ctypes.c_void_p,)
together = threading.Barrier(8)
def hold():
    together.wait()
    for _ in range(200):
        libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
text, length = ctypes.c_char_p(), ctypes.c_size_t()
stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(length))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(text.value.count(b"<heap nr="))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="heaps of glibc")
def test_all_threads_share_one_heap():
    found = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True)
    assert int(found.stdout) == 1
