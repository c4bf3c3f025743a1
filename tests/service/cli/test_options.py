"""The values that options take, and what the options of a command ask for."""

import io
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import pytest
from typed import command_names, every_parameter, parsed

from diptych import Collection
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.pool import Pool
from diptych.cli import options
from diptych.cli.options import open_engine, open_scorer, open_workers, read_pictures
from diptych.command_tree import amount, number
from diptych.console import Console
from diptych.errors import BatchError
from diptych.scoring.decode_pool import DecodePool, ThreadDecoder, make_decoder
from diptych.scoring.scorer import Scorer
from diptych.store.location import Address, parse_location
from diptych_runtime.paths import given_path
from diptych_runtime.session import thread_count


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (number(1, 9), [("1", 1), ("9", 9)], ["0", "10", "1.5", "many", ""]),
        (options.seconds, [("0.5", 0.5), ("60", 60.0)], ["0", "-1", "nan", "inf", "1e7", "soon"]),
        (options.probability, [("1", 1.0), ("1e-9", 1e-9)], ["0", "1.01", "nan", "half"]),
        (amount, [("590", 590.0)], ["0", "inf", "nan", "1e13", "$5"]),
        (
            options.read_location,
            [("store", Path("store")), ("milvus://host/photos", parse_location("milvus://host/photos"))],
            ["milvus://host:0x/a", "milvus://host/"],
        ),
        (options.read_folder, [("store", Path("store"))], ["milvus://host/photos"]),
        (options.read_condition, [('{"a": 1}', {"a": 1})], ['{"$a": 1}', "[1]", "{", "[" * 100_000]),
    ],
)
def test_values_are_read_or_refused_with_what_was_expected(kind, good, bad):
    for text, value in good:
        assert kind(text) == value
    for text in bad:
        with pytest.raises(ValueError, match="expected"):
            kind(text)


@pytest.mark.parametrize("data", ["", "not/absolute"])
def test_the_default_store_is_in_the_data_folder_of_the_user(data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert options.default_store() == tmp_path / "diptych"
    monkeypatch.setenv("XDG_DATA_HOME", data)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert options.default_store() == tmp_path / "home/.local/share/diptych"


def test_commands_use_the_default_store_and_say_how_it_is_made_where_there_is_none(diptych, data_home, monkeypatch):
    for words in (("index", "stats"), ("search", "a.jpg"), ("index", "verify")):
        assert Path(parsed(*words)["store"]) == data_home / "diptych"
    absent = diptych("index", "stats")
    assert (absent.code, f"make one with `diptych index add --store {data_home / 'diptych'}" in absent.err) == (1, True)
    assert not data_home.exists()
    monkeypatch.setenv("DIPTYCH_STORE", "shoes")
    assert Path(parsed("search", "a.jpg")["store"]) == Path("shoes")


def test_only_a_single_dash_is_standard_input(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http").mkdir()
    for name in ("./-", "--", "a-b.jpg", "http/photo.jpg"):
        (tmp_path / name).touch()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    names = ["-", "./-", "--", "a-b.jpg", "http/photo.jpg"]
    assert read_pictures(names, urls=False) == [b"piped", *names[1:]]


def test_a_command_that_fetches_nothing_starts_no_processes_for_strangers(artifact, monkeypatch):
    monkeypatch.setenv("DIPTYCH_URLS", "1")
    assert isinstance(open_scorer(str(artifact), "cpu", 1).decoder, ThreadDecoder)
    guarded = open_scorer(str(artifact), "cpu", 1, urls=False).decoder
    assert isinstance(guarded, DecodePool)
    guarded.close()


def test_the_options_of_an_engine_make_its_executor_and_its_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, config = open_engine("local", None, "mine", "auto", 6, workers=2)
    assert isinstance(engine, Pool)
    assert (engine.processes, config.threads, config.model) == (2, 3, str(tmp_path / "mine")), "whence all find it"
    assert open_engine("local", None, "photo", "auto", None, workers=999)[1].threads == 1
    assert open_engine("local", None, "photo", "auto", None, workers=1)[1].threads == thread_count()
    engine, config = open_engine("local", None, "photo", "auto", 3, urls=True)
    assert isinstance(engine, Serial)
    assert (config.model, config.provider, config.threads, config.urls) == ("photo", "auto", 3, True)
    monkeypatch.setitem(sys.modules, "ray", None)
    ray = open_workers(Console(), "ray", None, "photo", "auto", None)
    with pytest.raises(BatchError, match="needs Ray"), ray:
        pytest.fail("it was started")


def test_a_worker_of_a_batch_which_may_start_no_process_decodes_itself(monkeypatch):
    assert isinstance(make_decoder(False, 3), ThreadDecoder)
    monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True))
    alone = make_decoder(True, 3)
    assert isinstance(alone, ThreadDecoder)
    assert alone.threads == 3


# Words that are no paths; whatever else is read as a text is a path, and has to be read by `given_path`.
NO_PATHS = {"host", "address", "name", "split", "columns", "changes", "keep", "exclude", "only", "mixers"}
NO_PATHS |= {"archive"}


def parameters() -> list[tuple[str, Any]]:
    return [(name, param) for name in command_names() for param in every_parameter(name)]


def test_every_path_of_every_command_may_begin_with_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = 0
    for command, param in parameters():
        kind = param.type_descriptor.annotation
        one = next(iter(get_args(kind)), kind) if get_origin(kind) in (list, tuple, Sequence) else kind
        parser = param.type_descriptor.parameter_info.parser
        if one is str and parser is None:
            assert param.name in NO_PATHS, f"{command} {param.name}"
        elif one is Path or (one is str and parser is given_path):
            several = get_origin(kind) is not None
            read = param.get_runtime_param().coerce(["~/a.jpg"] if several else "~/a.jpg", param, None)
            assert str(read[0] if several else read) == str(tmp_path / "a.jpg"), f"{command} {param.name}"
            paths += 1
    assert paths > 140


def test_no_folder_is_made_that_is_named_as_home_is_by_a_shell(diptych, artifact, gallery, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DIPTYCH_STORE", "~/store")
    monkeypatch.setenv("XDG_CACHE_HOME", "~/cache")
    gallery.rename(tmp_path / "home")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    assert diptych("index", "add", "~/more", "~/01.jpg", "--model", artifact).code == 0
    assert diptych("dedupe", "~", "--model", artifact, "-o", "~/groups.csv").code == 0
    assert diptych("score", "~/01.jpg", "~/02.jpg", "--model", artifact).code == 0
    with Collection.open("~/library", Scorer.load(artifact), create=True):
        pass
    address = parse_location("milvus://host/c?originals=~/files")
    assert isinstance(address, Address)
    assert address.originals == tmp_path / "home/files"
    assert list((tmp_path / "cwd").iterdir()) == []
    assert {"store", "groups.csv", "library", ".cache"} <= {path.name for path in (tmp_path / "home").iterdir()}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("index stats", 1, "name a collection with --store or DIPTYCH_STORE, or set HOME"),
        ("dedupe {gallery} --method phash", 1, "with --store or XDG_CACHE_HOME, or set HOME"),
        ("index stats --store ~/store", 2, "~/store is in your home folder, and you have none: set HOME"),
        ("models list", 0, ""),
        ("score {gallery}/01.jpg {gallery}/02.jpg", 0, ""),
    ],
)
def test_a_user_without_a_home_folder_is_told_what_to_name(diptych, gallery, monkeypatch, words, code, said):
    def missing(number):
        raise KeyError(number)

    for variable in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", missing)
    result = diptych(*words.format(gallery=gallery).split())
    assert (result.code, "Traceback" in result.err) == (code, False)
    assert said in result.err


def test_names_in_utf8_are_read_and_written_under_every_locale(environment, gallery, tmp_path):
    (gallery / "01.jpg").rename(gallery / "Größe 写真.jpg")
    locale = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    variables = {**environment, "PYTHONCOERCECLOCALE": "0", **locale}

    def run(*words: object, text: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "diptych", *map(str, words)]
        return subprocess.run(command, env=variables, input=text.encode(), capture_output=True, check=True)

    store = ("--store", tmp_path / "store")
    found = json.loads(run("dedupe", gallery, "--method", "phash", "--json", *store).stdout)
    assert (found["pictures"], found["refused"]) == (12, [])
    table = f"image_a,image_b\n{gallery}/Größe 写真.jpg,{gallery}/02.jpg\n"
    scored = run("score", "-", "-o", "-", text=table).stdout.decode()
    assert f"{gallery}/Größe 写真.jpg,{gallery}/02.jpg,0." in scored
    name = os.fsencode(gallery) + b"/caf\xe9.jpg"
    Path(os.fsdecode(name)).write_bytes((gallery / "02.jpg").read_bytes())
    told = run("dedupe", gallery, "--method", "phash", *store).stdout.decode()
    assert "caf\\udce9.jpg has a name that is not UTF-8; rename it" in told
