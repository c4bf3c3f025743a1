from argparse import Namespace

import pytest

from diptych.batch.workers.executor import Serial, check_choice, chosen
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.retries import Attempts
from diptych_runtime.threads import thread_count


def asked(**options) -> Namespace:
    def usage_error(text):
        raise SystemExit(text)

    given = {"engine": "local", "address": None, "threads": None, "model": "photo", "provider": "auto"}
    return Namespace(**{**given, "usage_error": usage_error, **options})


def test_this_process_does_the_parts_one_after_the_other():
    done = []
    with Serial() as engine:
        numbers = engine.run(done.append, Attempts([4, 2, 7], str, print))
        assert next(numbers) == 4
        assert done == [4]
        assert list(numbers) == [2, 7]
    assert done == [4, 2, 7]


def test_processes_share_the_threads_and_a_model_is_named_so_that_all_find_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, means = chosen(asked(workers=2, threads=6, model="mine"))
    assert isinstance(engine, Pool)
    assert engine.processes == 2
    assert (means.threads, means.model) == (3, str(tmp_path / "mine"))
    assert chosen(asked(workers=999))[1].threads == 1
    assert chosen(asked(workers=1))[1].threads == thread_count()


def test_without_workers_or_a_cluster_this_process_works_with_what_was_asked_for():
    engine, means = chosen(asked(threads=3))
    assert isinstance(engine, Serial)
    assert (means.model, means.provider, means.threads, means.urls) == ("photo", "auto", 3, False)
    assert chosen(asked(urls=True))[1].urls


def test_what_does_not_go_together_is_refused():
    check_choice(asked(address="head:6379", engine="ray"))
    for options, said in (
        ({"address": "head:6379"}, "--address names a Ray cluster; it needs --engine ray"),
        ({"engine": "ray", "workers": 2}, "--workers are processes here"),
    ):
        with pytest.raises(SystemExit, match=said):
            check_choice(asked(**options))
