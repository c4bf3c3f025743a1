from diptych.store.index.layout import MANY, lists_for, needs_relayout


def test_a_collection_is_searched_exactly_until_it_is_large_and_then_in_about_as_many_lists_as_its_square_root():
    assert [lists_for(count, "auto") for count in (0, 1, 1000, MANY - 1)] == [1, 1, 1, 1]
    for count in (MANY, 1_000_000, 5_000_000):
        assert 1 <= lists_for(count, "auto") / count**0.5 < 2


def test_a_kind_that_was_asked_for_is_what_there_is_from_two_pictures_on():
    assert lists_for(10 * MANY, "exact") == 1
    assert [lists_for(count, "ivf") for count in (0, 1, 2, 50)] == [1, 1, 2, 8]


def test_a_collection_about_the_bound_does_not_go_to_and_fro():
    lists, changes = 1, 0
    for count in [MANY - 1, MANY, MANY - 1, MANY - 1000, MANY, MANY // 2, MANY - 1, MANY + 1]:
        if needs_relayout(count, "auto", lists, MANY):
            lists, changes = lists_for(count, "auto", lists), changes + 1
    assert (changes, lists > 1) == (1, True)
    assert needs_relayout(MANY // 2 - 1, "auto", lists, MANY)


def test_lists_are_made_anew_when_there_are_twice_or_half_as_many_pictures():
    assert not needs_relayout(2 * MANY, "auto", 1024, MANY)
    assert needs_relayout(2 * MANY + 1, "auto", 1024, MANY)
    assert needs_relayout(2 * MANY - 1, "auto", 2048, 4 * MANY)
    assert not needs_relayout(2 * MANY + 1, "exact", 1, 5)
