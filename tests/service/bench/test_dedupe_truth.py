from diptych.bench.dedupe import figures

TRUTH = {"a": "a", "a1": "a", "a2": "a", "b": "b", "b1": "b", "c": "c"}


def test_perfect_groups_have_perfect_figures():
    found = figures([["a", "a1", "a2"], ["b1", "b"]], TRUTH)
    assert found == {
        **{"groups": 2, "could_go": 3, "wrong": 0, "wrong_share": 0.0},
        **{"pair_precision": 1.0, "pair_recall": 1.0, "to_original": 1.0},
    }


def test_what_is_wrong_and_what_is_missed_is_counted():
    found = figures([["a", "a1", "b1"], ["a2", "c"]], TRUTH)
    assert (found["could_go"], found["wrong"], found["wrong_share"]) == (3, 2, 2 / 3)
    assert (found["pair_precision"], found["pair_recall"], found["to_original"]) == (1 / 4, 1 / 4, 1 / 3)


def test_no_groups_miss_everything_and_are_never_wrong():
    found = figures([], TRUTH)
    assert (found["pair_precision"], found["pair_recall"], found["wrong"]) == (1.0, 0.0, 0)
