"""Nothing in the current folder passes for a module of Python, in commands and in the processes that they start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).with_name("diptych")
OTHERS = ("numpy", "PIL", "onnxruntime", "typer", "diptych", "diptych_runtime", "diptych_export", "sitecustomize")
_LIBRARY = """
from functools import partial
from diptych.pictures.content import make_thumbnail
from diptych.scoring.decode_pool import DecodePool
from diptych_runtime.decoder import PictureLimits
if __name__ == "__main__":
    with DecodePool(1) as pool:
        pool.run(partial(make_thumbnail, open("a.png", "rb").read(), 8, PictureLimits(), name="a"))
"""


@pytest.fixture
def planted(tmp_path) -> Path:
    """A folder with two pictures, and a file that leaves a mark for every module that anybody could want."""
    folder = tmp_path / "album"
    folder.mkdir()
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (64, 64), colour).save(folder / f"{name}.png")
    (folder / "pairs.csv").write_text("image_a,image_b\na.png,b.png\n")
    for module in (*sys.stdlib_module_names, *OTHERS):
        (folder / f"{module}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({module + ' '!r})\n")
    return folder


def run(planted: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run([*map(str, command)], cwd=planted, env=environment, capture_output=True, text=True)
    assert not (planted / "ran").exists(), (planted / "ran").read_text()
    return done


def test_commands_and_the_processes_that_they_start_do_not_look_there(planted, artifact):
    for words in (("a.png", "b.png", "--urls"), ("pairs.csv", "-o", "scores.csv", "--workers", "1")):
        done = run(planted, SCRIPT, "score", *words, "--model", artifact, "--threads", 1)
        assert (done.returncode, done.stderr) == (0, done.stderr)


def test_programs_that_use_the_library_and_python_with_the_option_m_do_not_either(planted, tmp_path):
    (tmp_path / "program.py").write_text(_LIBRARY)
    done = run(planted, sys.executable, tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    for module in {*sys.stdlib_module_names, *OTHERS} - {"string", "json", "numpy", "typer"}:
        (planted / f"{module}.py").unlink()
    done = run(planted, sys.executable, "-m", "diptych", "score", "a.png", "nowhere.png")
    assert (done.returncode, "nowhere.png does not exist" in done.stderr) == (1, True)


def test_every_python_that_is_started_is_told_so():
    sources = [path for part in ("service", "export", "training") for path in (ROOT / part).rglob("*.py")]
    found = [match[1] for path in sources for match in re.finditer(r"sys\.executable,\s*(\S+)", path.read_text())]
    assert found
    assert set(found) == {'"-P",'}
