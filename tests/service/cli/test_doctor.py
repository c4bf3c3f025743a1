import shutil

from diptych.store.sqlite.schema import DATABASE


def test_doctor_says_what_runs_and_how_fast_and_looks_into_a_collection(diptych, store, model):
    report = diptych("doctor", "--store", store, *model, "--json").json
    assert {"versions", "threads", "limits", "models", "runtime", "store", "collections", "problems"} == set(report)
    assert report["versions"]["diptych"]
    assert report["threads"]["used"] >= 1
    assert report["runtime"]["provider"] == "CPUExecutionProvider"
    assert min(report["runtime"]["panel_ms"], report["runtime"]["pair_ms"]) > 0
    assert (report["store"]["pictures"], report["store"]["healthy"]) == (12, True)


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
