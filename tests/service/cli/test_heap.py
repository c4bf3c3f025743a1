import subprocess
import sys

import pytest

# Eight threads that hold memory at once, then the number of glibc's heaps.
HEAPS = """
import ctypes, sys, threading
from diptych.cli.options import share_one_heap
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
    [
        ("one", {"MALLOC_ARENA_MAX": ""}, 1),
        ("one", {"MALLOC_ARENA_MAX": "4"}, 4),
        ("one", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, 4),
    ],
)
def test_all_threads_share_one_heap_unless_the_environment_says_otherwise(how, environment, heaps, monkeypatch):
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True)
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
def test_what_was_freed_is_not_taken_anew_from_the_system_unless_the_environment_says_so(monkeypatch):
    def pages(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, check=True).stdout)

    for name in ("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    assert pages("kept") < 1000
    assert pages("as it comes") > 100_000
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert pages("kept") > 100_000
