from diptych_runtime.calibration.disjoint_sets import DisjointSets


def test_numbers_are_apart_until_they_are_joined_even_by_way_of_others():
    sets = DisjointSets()
    assert sets.root(3) != sets.root(4)
    assert sets.join(3, 4)
    assert sets.join(5, 6)
    assert not sets.join(4, 3), "they are in one already"
    assert sets.root(3) == sets.root(4) != sets.root(6)
    assert sets.join(6, 4)
    assert len({sets.root(number) for number in (3, 4, 5, 6)}) == 1
    assert not sets.join(7, 7)
