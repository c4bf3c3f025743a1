from contextlib import closing

from diptych.batch.names import Names, names_between


def test_names_have_places_in_the_order_in_which_they_came_and_each_only_one(tmp_path):
    path = tmp_path / "a name?.sqlite"
    given = ["b", "a", "", "b", "ä\n", "\ud800", "a", "x" * 5000]
    with closing(Names(path)) as names:
        places = [names.place(name) for name in given]
        names.finish()
        assert len(names) == 6
    assert places == [0, 1, 2, 0, 3, 4, 1, 5]
    assert names_between(path, 0, 6) == list(dict.fromkeys(given))
    assert names_between(path, 2, 4) == ["", "ä\n"]


def test_more_names_than_are_remembered_keep_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr("diptych.batch.names._REMEMBERED", 3)
    with closing(Names(tmp_path / "names")) as names:
        first = [names.place(str(number)) for number in range(100)]
        assert [names.place(str(number)) for number in range(100)] == first == list(range(100))
