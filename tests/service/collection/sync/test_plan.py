import pytest

from diptych.collection.sync.plan import find_going, find_objection, make_plan


def plan(before, at, hidden=(), elsewhere=None):
    return make_plan(before, at, hidden.__contains__, (elsewhere or {}).get)


def test_a_new_picture_stands_in_for_one_of_the_files_that_have_it_and_one_from_elsewhere_for_none():
    before = {"a": "/p/a", "b": "/p/b", "c": "/p/c", "d": "/p/d", "e": "/p/e"}
    at = {"/p/a": "new", "/p/b": "new", "/p/c": "newer", "/p/d": "e", "/p/e": "e"}
    found = plan(before, at)
    assert found.changed.keys() == set("abcd")
    assert find_going(found, before, at).keys() == {"a", "d"}


def test_of_a_run_that_was_killed_a_picture_that_was_added_stands_in_as_if_it_were_new():
    before, at = {"a": "/p/a", "b": "/p/b", "new": "/p/a"}, {"/p/a": "new", "/p/b": "new"}
    assert find_going(plan(before, at), before, at) == {"b": "/p/b"}


def pictures(folder: str, first: int, last: int) -> dict[str, str]:
    return {f"{folder}{number}": f"{folder}/{number}" for number in range(first, last)}


@pytest.mark.parametrize(
    ("gone", "had", "objected"),
    [(20, 21, False), (21, 41, True), (21, 42, False), (500, 1000, False), (501, 1000, True)],
)
def test_more_than_half_and_more_than_twenty_need_to_be_allowed(gone, had, objected):
    before, removed = pictures("/p", 0, had), pictures("/p", 0, gone)
    found = find_objection(removed, before, ["/p/there"], ["/p"])
    assert found == (f"{gone} of the {had:,} pictures that lay in /p are not there any more" if objected else None)


def test_each_folder_counts_by_itself_and_all_together_too():
    large, small = pictures("/p", 0, 100), pictures("/q", 0, 40)
    there = ["/p/there", "/q/there"]
    found = find_objection(pictures("/q", 0, 21), large | small, there, ["/p", "/q"])
    assert found == "21 of the 40 pictures that lay in /q are not there any more"
    both = pictures("/p", 0, 15) | pictures("/q", 0, 15)
    found = find_objection(both, pictures("/p", 0, 20) | pictures("/q", 0, 20), there, ["/p", "/q"])
    assert found == "30 of the 40 pictures that lay in /p, /q are not there any more"


def test_an_empty_folder_is_objected_to_however_little_lay_there_and_only_if_something_would_go():
    one = {"a": "/p/a"}
    assert find_objection(one, one, ["/q/there"], ["/p", "/q"]) == (
        "/p has no picture any more, and 1 of the collection lay there"
    )
    assert find_objection({}, one, [], ["/p"]) is None
    assert find_objection({"a": "/pq/a"}, {"a": "/pq/a"}, ["/pq/b"], ["/p", "/pq"]) is None, "/pq is not in /p"


def test_a_folder_below_that_is_still_there_and_empty_is_objected_to_and_one_that_was_deleted_is_not(tmp_path):
    (tmp_path / "nas").mkdir()
    (tmp_path / "few").mkdir()
    kept = pictures(f"{tmp_path}", 0, 100)
    for name, number, objected in (("nas", 21, True), ("few", 20, False), ("deleted", 21, False)):
        gone = pictures(f"{tmp_path}/{name}/year", 0, number)
        found = find_objection(gone, kept | gone, set(kept.values()), [str(tmp_path)])
        said = f"{tmp_path}/{name} has no picture any more, and {number} of the collection lay there"
        assert found == (said if objected else None)
    gone = pictures(f"{tmp_path}/nas", 0, 21)
    assert find_objection(gone, kept | gone, {*kept.values(), f"{tmp_path}/nas/one"}, [str(tmp_path)]) is None
