"""What the options of a command ask for."""

import io
import multiprocessing
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
from diptych.cli.resources import check_engine, engine_of, open_scorer, open_workers, read_pictures

from diptych.batch.workers.executor import Serial
from diptych.batch.workers.pool import Pool
from diptych.errors import BatchError
from diptych.scoring.decode_pool import DecodePool, ThreadDecoder, decoder
from diptych_runtime.session import thread_count


def asked(**options) -> Namespace:
    def usage_error(text):
        raise SystemExit(text)

    given = {"engine": "local", "address": None, "threads": None, "model": "photo", "provider": "auto"}
    return Namespace(**{**given, "usage_error": usage_error, **options})


def test_only_a_single_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    names = ["-", "./-", "--", "a-b.jpg", "http/photo.jpg"]
    assert read_pictures(Namespace(urls=False), names) == [b"piped", *names[1:]]


def test_a_command_that_fetches_nothing_starts_no_processes_for_strangers(artifact, monkeypatch):
    monkeypatch.setenv("DIPTYCH_URLS", "1")
    args = Namespace(model=str(artifact), provider="cpu", threads=1)
    assert isinstance(open_scorer(args).decoder, ThreadDecoder)
    guarded = open_scorer(Namespace(**vars(args), urls=False)).decoder
    assert isinstance(guarded, DecodePool)
    guarded.close()


def test_processes_share_the_threads_and_a_model_is_named_so_that_all_find_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, means = engine_of(asked(workers=2, threads=6, model="mine"))
    assert isinstance(engine, Pool)
    assert engine.processes == 2
    assert (means.threads, means.model) == (3, str(tmp_path / "mine"))
    assert engine_of(asked(workers=999))[1].threads == 1
    assert engine_of(asked(workers=1))[1].threads == thread_count()


def test_without_workers_or_a_cluster_this_process_works_with_what_was_asked_for():
    engine, means = engine_of(asked(threads=3))
    assert isinstance(engine, Serial)
    assert (means.model, means.provider, means.threads, means.urls) == ("photo", "auto", 3, False)
    assert engine_of(asked(urls=True))[1].urls


def test_what_does_not_go_together_is_refused():
    check_engine(asked(address="head:6379", engine="ray"))
    for options, said in (
        ({"address": "head:6379"}, "--address names a Ray cluster; it needs --engine ray"),
        ({"engine": "ray", "workers": 2}, "--workers are processes here"),
    ):
        with pytest.raises(SystemExit, match=said):
            check_engine(asked(**options))


def test_nobody_is_hired_unless_asked_for(monkeypatch):
    local = Namespace(engine="local", address=None)
    with open_workers(local) as crew:
        assert crew is None
    monkeypatch.setitem(sys.modules, "ray", None)
    ray = Namespace(engine="ray", address=None, threads=None, model="photo", provider="auto")
    with pytest.raises(BatchError, match="needs Ray"), open_workers(ray):
        pytest.fail("it was hired")


def test_a_worker_of_a_batch_which_may_start_no_process_decodes_itself(monkeypatch):
    assert isinstance(decoder(False, 3), ThreadDecoder)
    monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(daemon=True))
    alone = decoder(True, 3)
    assert isinstance(alone, ThreadDecoder)
    assert alone.threads == 3
