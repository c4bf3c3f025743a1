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
@pytest.mark.parametrize(
    ("variable", "value", "heaps"),
    [
        ("MALLOC_ARENA_MAX", "", 1),
        ("MALLOC_ARENA_MAX", "4", 4),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=4", 4),
    ],
)
def test_all_threads_share_one_heap_unless_the_environment_says_otherwise(variable, value, heaps, monkeypatch):
    monkeypatch.setenv(variable, value)
    found = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True)
    assert int(found.stdout) == heaps


# Twelve blocks of three megabytes, taken and freed together twenty times: the pages that the system gave.
PAGES = """
import resource, sys
from diptych.cli.options import share_one_heap
if sys.argv[1] == "kept":
    share_one_heap()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for number in range(21):
    blocks = [bytearray(3 * 2**20) for _ in range(12)]
    del blocks
    before = before if number else faults()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the heap of glibc")
@pytest.mark.parametrize(
    ("how", "threshold", "is_kept"), [("kept", "", True), ("kept", "65536", False), ("", "", False)]
)
def test_what_was_freed_is_kept_unless_the_environment_says_otherwise(how, threshold, is_kept, monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", threshold)
    pages = int(subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, check=True).stdout)
    assert (pages < 1000, pages > 100_000) == (is_kept, not is_kept)
