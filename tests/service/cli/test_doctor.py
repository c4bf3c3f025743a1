import shutil
from dataclasses import asdict, replace

from diptych.cli import doctor
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import find_artifact


def test_doctor_says_what_runs_and_how_fast_and_looks_into_a_collection(diptych, store, model):
    report = diptych("doctor", "--store", store, *model, "--json").json
    assert {"versions", "threads", "limits", "models", "runtime", "store", "collections", "problems"} == set(report)
    assert report["versions"]["diptych"]
    assert report["threads"]["used"] >= 1
    assert report["threads"]["reason"]
    assert report["limits"]["side"] == 8
    runtime = report["runtime"]
    assert runtime["provider"] == "CPUExecutionProvider"
    assert runtime["panel_ms"] > 0
    assert runtime["pair_ms"] > 0
    assert (report["store"]["pictures"], report["store"]["healthy"]) == (12, True)


def test_doctor_says_from_where_on_each_verdict_is_and_which_negatives_reach_what(diptych, model):
    said = diptych("doctor", *model).out
    photo = Manifest.load(find_artifact("photo")).questions["copy"]
    least = verdict_thresholds(photo.effective_thresholds)
    assert f"photo, copy: same from {least['same']:.5f}, likely from {least['likely']:.5f}, unsure from 0.50000" in said
    assert "omniglot, match: same from" in said
    measured = replace(photo, negatives={"random": {"0.001": 0.25}, "nearest": {"0.01": 0.5, "0.001": 0.9}})
    assert doctor._describe_thresholds(asdict(measured))[1:] == [
        "random negatives: 0.10% reach 0.25000",
        "nearest negatives: 1.00% reach 0.50000, 0.10% reach 0.90000",
    ]


def test_doctor_names_what_is_wrong_and_exits_with_1(diptych, tmp_path):
    result = diptych("doctor", "--model", tmp_path, "--store", tmp_path / "none")
    assert result.code == 1
    problems = [line for line in result.out.splitlines() if line.startswith("problem")]
    assert any("is no model artifact" in line for line in problems)
    assert any("holds no collection" in line for line in problems)
    assert "versions" in result.out


def test_doctor_looks_into_every_collection_of_a_root_and_one_that_is_damaged_hides_no_other(
    diptych, model, collection, tmp_path
):
    collection.close()
    (tmp_path / "root").mkdir()
    shutil.copytree(collection.directory, tmp_path / "root" / "shoes")
    (tmp_path / "root" / "bags").mkdir()
    (tmp_path / "root" / "bags" / DATABASE).write_bytes(b"no database at all" * 100)
    result = diptych("doctor", "--collections", tmp_path / "root", *model, "--json")
    assert result.code == 1
    assert result.json["collections"]["shoes"]["pictures"] == 12
    assert result.json["collections"]["bags"] is None
    assert [text for text in result.json["problems"] if str(tmp_path / "root" / "bags") in text]
    assert f"{tmp_path / 'root' / 'shoes'}: 12 pictures" in diptych("doctor", "--collections", tmp_path / "root").out
    nowhere = diptych("doctor", "--collections", tmp_path / "none", *model)
    assert (nowhere.code, "expected a folder with the folders of collections" in nowhere.out) == (1, True)
