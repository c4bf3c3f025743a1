import csv

import pytest
from answering import PUBLIC, whole

ADDRESS = f"http://{PUBLIC}/photo.jpg"


@pytest.fixture
def photo(serve, routed, photo_bytes, tmp_path):
    """A photo's file; it is behind `ADDRESS` too."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(photo_bytes(0, (96, 64), "JPEG"))
    routed[PUBLIC] = serve(whole(path.read_bytes()))
    return path


def test_a_web_address_stands_for_its_picture_where_that_is_asked_for(photo, artifact, diptych):
    model = ("--model", artifact, "--json", "--urls")
    by_file, by_address = (diptych("score", photo, name, *model).json for name in (photo, ADDRESS))
    assert by_address["raw_score"] == by_file["raw_score"]
    ranked = diptych("rerank", ADDRESS, photo, ADDRESS, *model).json["results"]
    assert [result["raw_score"] for result in ranked] == pytest.approx([by_file["raw_score"]] * 2)
    assert diptych("explain", photo, ADDRESS, *model).json["relevance_score"] == pytest.approx(
        by_file["relevance_score"]
    )


@pytest.mark.parametrize("command", ["score", "rerank", "explain"])
def test_without_asking_nothing_is_fetched_and_the_error_says_how(command, photo, artifact, routed, diptych):
    answer = diptych(command, photo, ADDRESS, "--model", artifact)
    assert answer.code == 1
    assert f"{ADDRESS} is a web address; add --urls" in answer.err
    assert routed.tried == []


def test_the_limits_of_the_service_hold_on_the_command_line(photo, artifact, routed, diptych, monkeypatch):
    answer = diptych("score", photo, "http://127.0.0.1/photo.jpg", "--urls", "--model", artifact)
    assert answer.code == 1
    assert "127.0.0.1" in answer.err
    monkeypatch.setenv("DIPTYCH_URL_BYTES", "100")
    assert "100" in diptych("score", photo, ADDRESS, "--urls", "--model", artifact).err
    monkeypatch.setenv("DIPTYCH_KEYZ", "of the service alone")
    monkeypatch.setenv("DIPTYCH_URL_BYTE", "100")
    answer = diptych("score", photo, ADDRESS, "--urls", "--model", artifact)
    assert answer.code == 1
    assert "DIPTYCH_URL_BYTE is no setting; did you mean DIPTYCH_URL_BYTES?" in answer.err
    assert all(address == (PUBLIC, 80) for address in routed.tried)


def test_pictures_of_strangers_are_decoded_within_the_bounds_of_the_service(
    photo, artifact, diptych, monkeypatch, tmp_path
):
    monkeypatch.setenv("DIPTYCH_DECODE_SECONDS", "0.000001")
    answer = diptych("score", photo, ADDRESS, "--urls", "--model", artifact)
    assert answer.code == 1
    assert "took more than 1e-06 s to decode" in answer.err
    table, out = tmp_path / "pairs.csv", tmp_path / "out.csv"
    table.write_text(f"image_a,image_b\nphoto.jpg,{ADDRESS}\n")
    assert diptych("score", table, "-o", out, "--urls", "--model", artifact).code == 1
    assert "took more than 1e-06 s to decode" in out.read_text()
    assert diptych("score", photo, photo, "--model", artifact).code == 0, "one's own are not bounded"


def test_a_table_may_name_web_addresses_and_one_that_fails_costs_its_row(photo, artifact, routed, diptych, tmp_path):
    table, out = tmp_path / "pairs.csv", tmp_path / "out.csv"
    table.write_text(f"image_a,image_b\nphoto.jpg,{ADDRESS}\nphoto.jpg,http://10.0.0.1/x.jpg\nphoto.jpg,photo.jpg\n")
    assert diptych("score", table, "-o", tmp_path / "none.csv", "--model", artifact).code == 1
    assert (tmp_path / "none.csv").read_text().count("add --urls") == 2
    assert routed.tried == [], "nothing is fetched unless the reader of the table says so"
    assert diptych("score", table, "-o", out, "--urls", "--model", artifact).code == 1
    with out.open() as file:
        first, second, third = csv.DictReader(file)
    assert first["raw_score"] == third["raw_score"] != ""
    assert second["raw_score"] == ""
    assert "10.0.0.1" in second["error"]
