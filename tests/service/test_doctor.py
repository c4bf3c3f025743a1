import pytest


@pytest.fixture
def model(artifact):
    return ("--model", artifact, "--threads", 1)


def test_doctor_says_what_runs_and_how_fast(diptych, model):
    report = diptych("doctor", *model, "--json").json
    assert {"versions", "threads", "limits", "models", "runtime", "store", "problems"} == set(report)
    assert report["versions"]["diptych"]
    assert report["threads"]["used"] >= 1
    assert report["threads"]["reason"]
    assert report["limits"]["side"] == 8
    runtime = report["runtime"]
    assert runtime["provider"] == "CPUExecutionProvider"
    assert runtime["panel_ms"] > 0
    assert runtime["pair_ms"] > 0


def test_doctor_looks_into_a_collection(diptych, model, collection):
    report = diptych("doctor", "--store", collection.directory, *model, "--json").json
    assert report["store"]["pictures"] == 12
    assert report["store"]["healthy"]


def test_doctor_names_what_is_wrong_and_exits_with_1(diptych, tmp_path):
    result = diptych("doctor", "--model", tmp_path, "--store", tmp_path / "none")
    assert result.code == 1
    problems = [line for line in result.out.splitlines() if line.startswith("problem")]
    assert any("is no model artifact" in line for line in problems)
    assert any("holds no collection" in line for line in problems)
    assert "versions" in result.out
