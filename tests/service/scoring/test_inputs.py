"""Pictures and pairs as callers give them: every kind of input, and clear errors for what is none."""

import logging

import numpy as np
import pytest
from answering import PUBLIC, whole
from PIL import Image

from diptych import Collection, Scorer
from diptych.errors import RemoteRefusedError
from diptych.scoring.inputs import pairs_of, pictures_of
from diptych_runtime.errors import PictureError

ADDRESS = f"http://{PUBLIC}/photo.png"


@pytest.fixture
def kinds(photo, photo_bytes, tmp_path, serve, routed):
    """One picture as everything that a picture may be."""
    data, path = photo_bytes(3, (64, 48), "PNG"), tmp_path / "three.png"
    path.write_bytes(data)
    routed[PUBLIC] = serve(whole(data))
    image = Image.open(path)
    return [
        str(path),
        path,
        data,
        bytearray(data),
        memoryview(data),
        photo(3, (64, 48)),
        image,
        np.asarray(image),
        ADDRESS,
    ]


@pytest.fixture
def fetching(artifact) -> Scorer:
    return Scorer.load(str(artifact), provider="cpu", threads=2, urls=True)


def test_every_kind_of_picture_is_taken_by_every_method(fetching, kinds, photo, tmp_path):
    scores = fetching.predict([(kind, photo(1)) for kind in kinds])
    assert len(set(scores.tolist())) == 1
    assert {entry["score"] for entry in fetching.rank(photo(1), kinds)} == {scores[0]}
    assert [fetching.rank(kind, [photo(1)])[0]["score"] for kind in kinds] == [scores[0]] * len(kinds)
    assert len({row.tobytes() for row in fetching.encode(kinds)}) == 1
    assert [fetching.encode(kind).tobytes() for kind in kinds] == [fetching.encode(kinds)[0].tobytes()] * len(kinds)
    assert len({judged["match"] for judged in fetching.judge([(kind, photo(1)) for kind in kinds])}) == 1
    with Collection.open(tmp_path / "store", fetching, create=True) as collection:
        added = collection.add(kinds)
        assert len({one.id for one in added if one.path is not None or one.created}) <= 2
        for kind in kinds:
            assert collection.search(kind, top=1, candidates=0).matches[0].similarity == pytest.approx(1.0, abs=1e-3)


def test_a_web_address_is_fetched_once_and_remembered_as_where_the_picture_is(fetching, kinds, routed, tmp_path, photo):
    fetching.predict([(ADDRESS, photo(seed)) for seed in range(4)])
    assert routed.tried == [(PUBLIC, 80)]
    with pytest.raises(RemoteRefusedError, match="is not, or not only, on the public internet"):
        fetching.predict([(photo(1), "http://10.0.0.1/a.jpg")])
    with Collection.open(tmp_path / "store", fetching, create=True) as collection:
        (added,) = collection.add(ADDRESS)
        assert added.path == collection.get(added.id).path == ADDRESS


@pytest.mark.parametrize("urls", ["", "1"])
def test_no_connection_is_opened_unless_that_is_allowed(artifact, kinds, routed, photo, tmp_path, monkeypatch, urls):
    monkeypatch.setenv("DIPTYCH_URLS", urls)
    scorer = Scorer.load(str(artifact), provider="cpu", threads=1)
    if urls:
        assert scorer.predict([(ADDRESS, kinds[0])]).shape == (1,)
        return
    told = r"is a web address; .*Scorer\.load\(urls=True\).*DIPTYCH_URLS"
    for ask in (
        lambda: scorer.predict([(ADDRESS, photo(1))]),
        lambda: scorer.rank(photo(1), [ADDRESS]),
        lambda: scorer.judge([(photo(1), ADDRESS)]),
        lambda: scorer.encode(ADDRESS),
        lambda: scorer.pixels(ADDRESS),
        lambda: scorer.query_pixels(ADDRESS),
        lambda: scorer.views([ADDRESS]),
    ):
        with pytest.raises(RemoteRefusedError, match=told):
            ask()
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        with pytest.raises(PictureError, match=told):
            collection.add([photo(1), ADDRESS])
        with pytest.raises(RemoteRefusedError, match=told):
            collection.search(ADDRESS)
    assert routed.tried == []


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (("a.jpg", "b.jpg"), r"pair 0 must be .*, got str; write predict\(\[\(a, b\), "),
        ("a.jpg", "pair 0 must be a list or a tuple of two pictures, got str"),
        (np.zeros((9, 9, 3), np.uint8), "got ndarray"),
        ([("a.jpg", "b.jpg"), "c.jpg"], "pair 1 must be a list or a tuple of two pictures, got str"),
        ([("a.jpg", "b.jpg", "c.jpg")], "pair 0 must be a list or a tuple of two pictures, got 3 pictures"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused_with_what_to_write(scorer, inputs, told):
    for ask in (scorer.predict, scorer.judge):
        with pytest.raises(ValueError, match=told):
            ask(inputs)


def test_pairs_may_be_lists_tuples_or_columns_of_a_table():
    expected = [("a", "b"), ("c", "d")]
    table = np.array(expected)
    for given in (expected, [["a", "b"], ["c", "d"]], zip("ac", "bd", strict=True), table, table.astype(object)):
        assert [tuple(pair) for pair in pairs_of(given)] == expected
    assert pairs_of(()) == []


def test_pictures_of_a_folder_come_in_alphabetical_order_with_those_of_its_folders(scorer, gallery, tmp_path):
    files = pictures_of(gallery)
    ranking = scorer.rank(files[4], gallery, top_k=3, return_documents=True)
    assert ranking == scorer.rank(files[4], files, top_k=3, return_documents=True)
    assert [entry["document"] for entry in ranking] == [files[entry["corpus_id"]] for entry in ranking]
    assert files == pictures_of(str(gallery)) == sorted(gallery.rglob("*.jpg"))
    array = np.arange(3 * 81 * 3, dtype=np.uint8).reshape(3, 9, 9, 3)
    assert np.array_equal(np.stack([np.asarray(picture) for picture in pictures_of(array)]), array)
    with pytest.raises(ValueError, match=r"expected a list of pictures or a folder, got one picture: 'no.jpg'"):
        pictures_of("no.jpg")
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(PictureError, match=r"there is no picture \(\.avif, .*\) in .*empty$"):
        pictures_of(empty)


def test_a_folder_with_a_broken_file_is_added_with_a_warning_and_a_named_one_is_an_error(
    scorer, gallery, tmp_path, caplog
):
    broken = gallery / "more" / "broken.jpg"
    broken.write_bytes(b"no picture")
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        with caplog.at_level(logging.WARNING):
            added = collection.add(gallery)
        assert f"skipped {broken}" in caplog.text
        assert len(added) == len(collection) == 12
        assert [one.path for one in added] == [str(path) for path in pictures_of(gallery) if path != broken]
        with pytest.raises(PictureError, match="broken"):
            collection.add([gallery / "01.jpg", broken])
        refused = []
        assert collection.add([gallery, broken], on_error=lambda *told: refused.append(told[0])) is not None
        assert refused == [broken, broken]
