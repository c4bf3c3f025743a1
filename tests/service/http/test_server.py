import subprocess
import sys

import pytest

# Eight threads that hold memory at once, then the number of glibc's heaps.
HEAPS = """
import ctypes, sys, threading
from diptych.http.server import share_one_heap
if sys.argv[1] == "one":
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
@pytest.mark.parametrize(
    ("how", "environment", "heaps"),
    [("one", {}, 1), ("one", {"MALLOC_ARENA_MAX": "4"}, 4), ("as it comes", {"MALLOC_ARENA_MAX": "4"}, 4)],
)
def test_all_threads_share_one_heap_unless_the_environment_says_otherwise(how, environment, heaps, monkeypatch):
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True)
    assert int(found.stdout) == heaps
