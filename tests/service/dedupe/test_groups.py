import itertools

import numpy as np
import pytest

from diptych.dedupe.groups import grouped, matches_of


def test_a_chain_is_not_one_group_but_a_keeper_with_what_matches_it():
    matches = matches_of([(0, 1), (1, 2), (2, 3)], [0.9, 0.9, 0.9], 0.5)
    assert grouped(range(4), matches, 0.5) == [[0, 1], [2, 3]]
    assert grouped([1, 0, 2, 3], matches, 0.5) == [[1, 0, 2]]


def test_a_pair_at_the_threshold_matches_and_one_below_does_not():
    pairs = [(0, 1), (2, 3)]
    assert grouped(range(4), matches_of(pairs, [0.7, 0.6999], 0.7), 0.7) == [[0, 1]]


def test_a_keeper_is_asked_about_those_that_share_a_match_with_it_and_nothing_further():
    matches, asked = matches_of([(0, 1), (1, 2), (2, 3)], [0.9] * 3, 0.5), []

    def ask(pairs):
        asked.extend(pairs)
        return [0.8 if pair == (0, 2) else 0.1 for pair in pairs]

    assert grouped(range(4), matches, 0.5, ask) == [[0, 1, 2]]
    assert asked == [(0, 2)]


def test_all_keepers_of_a_round_are_asked_about_at_once():
    matches, calls = matches_of([(0, 1), (1, 2), (3, 4), (4, 5)], [0.9] * 4, 0.5), []

    def ask(pairs):
        calls.append(pairs)
        return [0.0] * len(pairs)

    grouped(range(6), matches, 0.5, ask)
    assert calls == [[(0, 2), (3, 5)]]


@pytest.fixture(params=range(5))
def many(request):
    """(order, pairs, scores) of a random graph."""
    random = np.random.default_rng(request.param)
    pairs = [pair for pair in itertools.combinations(range(60), 2) if random.random() < 0.05]
    return random.permutation(60).tolist(), pairs, random.random(len(pairs)).tolist(), random


def test_every_member_matches_the_keeper_itself_and_is_in_one_group(many):
    order, pairs, scores, _ = many
    known = dict(zip(pairs, scores, strict=True))
    groups = grouped(order, matches_of(pairs, scores, 0.4), 0.4)
    assert len(groups) > 5
    members = [item for group in groups for item in group]
    assert len(members) == len(set(members))
    for keeper, *others in groups:
        assert all(known[min(keeper, other), max(keeper, other)] >= 0.4 for other in others)
        assert order.index(keeper) < min(map(order.index, others))


def test_groups_are_those_of_the_simple_rule_in_order_to_keep(many):
    order, pairs, scores, _ = many
    matches, taken, expected = matches_of(pairs, scores, 0.4), set(), []
    for keeper in order:
        others = [other for other in order if other in matches.get(keeper, {}) and other not in taken]
        if keeper not in taken and others:
            expected.append([keeper, *others])
            taken |= {keeper, *others}
        taken.add(keeper)
    assert grouped(order, matches, 0.4) == expected


def test_the_order_in_which_pairs_come_makes_no_difference(many):
    order, pairs, scores, random = many
    expected = grouped(order, matches_of(pairs, scores, 0.4), 0.4)
    shuffled = random.permutation(len(pairs)).tolist()
    turned = [pairs[place][:: random.choice([1, -1])] for place in shuffled]
    assert grouped(order, matches_of(turned, [scores[place] for place in shuffled], 0.4), 0.4) == expected


def test_what_was_asked_gives_the_same_groups_without_asking_again(many):
    order, pairs, scores, random = many
    every = random.random((60, 60))
    matches = matches_of(pairs, scores, 0.6)
    groups = grouped(order, matches, 0.6, lambda wanted: [every[min(pair), max(pair)] for pair in wanted])
    assert groups != grouped(order, matches_of(pairs, scores, 0.6), 0.6), "asking found something"
    assert grouped(order, matches, 0.6) == groups
