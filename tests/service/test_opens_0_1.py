"""An artifact, a store with its caches and a dedupe journal of Diptych 0.1 open with the present code.

`fixtures/0.1-first` and `0.1-last` are of the first and the last formats of 0.1 (written by the commits 4424153 and
e20cf33^), made in /tmp/diptych-0.1 from a network with random weights and drawn pictures:

    diptych index sync photos --store store --model artifact
    diptych dedupe photos --store store --model artifact --delete
    diptych search photos/1.jpg --store store --model artifact --json > search.json
"""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from diptych import Collection, Scorer
from diptych.collection.sync.seen_files import SeenFiles
from diptych.dedupe.pair_cache import PairCache
from diptych_runtime.manifest import Manifest

FIXTURES = Path(__file__).parent / "fixtures"
WAS = "/tmp/diptych-0.1"


@pytest.fixture(params=["first", "last"])
def old(request, tmp_path) -> Path:
    """The folder that Diptych 0.1 wrote, at another place."""
    with tarfile.open(FIXTURES / f"0.1-{request.param}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        archive.extractall(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
def model(old) -> Scorer:
    return Scorer.load(str(old / "artifact"), provider="cpu", threads=1)


def test_an_artifact_is_read_with_its_calibration(old):
    questions = Manifest.load(old / "artifact").questions
    assert {name: (q.scale, q.offset, dict(q.thresholds)) for name, q in questions.items()} == {
        "match": (1.5, -0.25, {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99})
    }


def test_a_store_is_whole_and_searched_with_the_same_answer(old, model, diptych):
    then = json.loads((old / "search.json").read_text())
    words = ("--store", old / "store", "--model", old / "artifact", "--threads", 1, "--json")
    now = diptych("search", old / "photos/1.jpg", *words)
    assert now.code == 0
    for key in ("matches", "candidates"):
        assert len(then[key]) == 4
        for one, other in zip(then[key], now.json[key], strict=True):
            for name in ("id", "path", "metadata"):
                assert other[name] == one[name]
            for name in ("rank", "first_rank"):
                assert other[name] == one[name] + 1, "0.1 counted from 0"
            for name in ("raw_score", "similarity"):
                assert other[name] == pytest.approx(one[name], abs=1e-5)
            expected = 1 if one["path"].endswith("/1.jpg") else one["relevance_score"]  # the same file is the same
            assert other["relevance_score"] == pytest.approx(expected, abs=1e-5)
    checked = diptych("index", "verify", "--store", old / "store", "--json")
    assert (checked.code, checked.json["healthy"], checked.json["pictures"]) == (0, True, 4)
    with Collection.open(old / "store", model) as collection:
        assert collection.add(old / "photos/2.jpg")[0].created is False
        assert len(collection) == 4


def test_files_that_sync_read_are_known_still(old, model):
    with SeenFiles(old / "store", model.limits) as seen:
        names = {path.removeprefix(f"{WAS}/photos/"): file for path, file in seen.files([f"{WAS}/photos"]).items()}
    assert sorted(names) == ["0 again.jpg", "0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert names["0 again.jpg"].id == names["0.jpg"].id
    assert {file.reason for file in names.values()} == {None}


def test_pairs_that_dedupe_scored_are_not_scored_again(old, model):
    with Collection.open(old / "store", model, read_only=True) as collection:
        ids = sorted(record.id for record in collection.list(9))
    with PairCache(old / "store" / "dedupe.sqlite", model.runtime.revision) as cache:
        keys, logits = cache.get_scores(ids, "match")
    assert len(ids) == 4
    assert keys.tolist() == [1, 2, 3, 6, 7, 11]
    panels = {}
    with Collection.open(old / "store", model, read_only=True) as collection:
        panels = {id: tokens for id, (tokens, _) in collection.panels(ids).items()}
    pairs = [(ids[key // 4], ids[key % 4]) for key in keys.tolist()]
    again = model.runtime.pair_logits(*(np.stack([panels[pair[side]] for pair in pairs]) for side in (0, 1)))
    np.testing.assert_allclose(again, logits, atol=1e-5)


def test_a_journal_is_undone(old, diptych):
    (journal,) = (old / "photos/.diptych-trash").glob("*/journal.jsonl")
    journal.write_text(journal.read_text().replace(WAS, str(old)))
    assert not (old / "photos/0 again.jpg").exists()
    undone = diptych("dedupe", "--undo", journal, "--json")
    assert (undone.code, undone.json["done"], undone.json["left"]) == (0, 1, [])
    assert (old / "photos/0 again.jpg").read_bytes() == (old / "photos/0.jpg").read_bytes()
