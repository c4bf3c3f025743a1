import itertools

import numpy as np
import pytest

from diptych.dedupe.groups import group_items, matches_of


def test_a_chain_is_not_one_group_but_a_keeper_with_what_matches_it():
    matches = matches_of([(0, 1), (1, 2), (2, 3)], [0.9, 0.9, 0.9], 0.5)
    assert group_items(range(4), matches, 0.5) == [[0, 1], [2, 3]]
    assert group_items([1, 0, 2, 3], matches, 0.5) == [[1, 0, 2]]


def test_a_pair_at_the_threshold_matches_and_one_below_does_not():
    pairs = [(0, 1), (2, 3)]
    assert group_items(range(4), matches_of(pairs, [0.7, 0.6999], 0.7), 0.7) == [[0, 1]]


def test_a_keeper_is_asked_about_what_keeps_two_groups_apart_and_nothing_further():
    matches, asked = matches_of([(0, 1), (1, 2), (2, 3)], [0.9, 0.8, 0.7], 0.5), []

    def ask(pairs):
        asked.append(pairs)
        return [0.8 if pair == (0, 2) else 0.1 for pair in pairs]

    assert group_items(range(4), matches, 0.5, ask) == [[0, 1, 2]]
    assert asked == [[(0, 2)], [(0, 3)]], "3 matches 2, which 0 keeps only now"


@pytest.mark.parametrize("score", [0.95, 0.1])
def test_a_large_cluster_is_asked_about_in_a_few_calls_and_of_no_pair_twice(score):
    random, calls = np.random.default_rng(0), []
    pairs = sorted({(a, b) for a in range(300) for b in random.integers(a + 1, a + 20, 6).tolist() if b < 300})
    matches = matches_of(pairs, random.uniform(0.6, 1, len(pairs)).tolist(), 0.5)

    def ask(pairs):
        calls.append(pairs)
        return [score] * len(pairs)

    groups = group_items(random.permutation(300).tolist(), matches, 0.5, ask)
    asked = [pair for call in calls for pair in call]
    assert 1 < len(calls) <= 8
    assert len(asked) == len(set(asked)) < 8 * 300
    assert (len(groups) < 20) == (score > 0.5), "what matches comes together"


@pytest.fixture(params=range(5))
def many(request):
    """(order, pairs, scores) of a random graph."""
    random = np.random.default_rng(request.param)
    pairs = [pair for pair in itertools.combinations(range(60), 2) if random.random() < 0.05]
    return random.permutation(60).tolist(), pairs, random.random(len(pairs)).tolist(), random


def test_groups_are_those_of_the_simple_rule_the_surest_pair_first(many):
    order, pairs, scores, _ = many
    known = dict(zip(pairs, scores, strict=True)) | {(b, a): score for (a, b), score in zip(pairs, scores, strict=True)}
    groups = [[item] for item in order]
    for a, b in sorted(pairs, key=known.__getitem__, reverse=True):
        (one,), (other,) = ([group for group in groups if item in group] for item in (a, b))
        keeper = min(one + other, key=order.index)
        if known[a, b] >= 0.4 and all(known.get((keeper, item), 0) >= 0.4 for item in one + other if item != keeper):
            groups = [group for group in groups if group not in (one, other)] + [list({*one, *other})]
    expected = [sorted(group, key=order.index) for group in groups if len(group) > 1]
    found = group_items(order, matches_of(pairs, scores, 0.4), 0.4)
    assert found == sorted(expected, key=lambda group: order.index(group[0]))
    assert any(len(group) > 2 for group in found)


def test_the_order_in_which_pairs_come_makes_no_difference(many):
    order, pairs, scores, random = many
    expected = group_items(order, matches_of(pairs, scores, 0.4), 0.4)
    shuffled = random.permutation(len(pairs)).tolist()
    turned = [pairs[place][:: random.choice([1, -1])] for place in shuffled]
    assert group_items(order, matches_of(turned, [scores[place] for place in shuffled], 0.4), 0.4) == expected


def test_what_was_asked_gives_the_same_groups_without_asking_again(many):
    order, pairs, scores, random = many
    every = random.random((60, 60))
    matches = matches_of(pairs, scores, 0.6)
    groups = group_items(order, matches, 0.6, lambda wanted: [every[min(pair), max(pair)] for pair in wanted])
    assert groups != group_items(order, matches_of(pairs, scores, 0.6), 0.6), "asking found something"
    assert group_items(order, matches, 0.6) == groups
