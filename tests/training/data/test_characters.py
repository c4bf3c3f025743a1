"""Omniglot's layout, groups and episodes, on an archive of drawn characters."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_training.data.characters import (
    Characters,
    Groups,
    bend_ink,
    draw_episodes,
    load_characters,
    make_pictures,
    ripple_ink,
)


@pytest.fixture(scope="session")
def characters(omniglot: Path) -> Characters:
    return load_characters(omniglot, "validation", 28)


def test_every_drawing_has_its_character_alphabet_and_hand(characters: Characters) -> None:
    assert characters.pixels.shape == (96, 28, 28)
    assert len(np.unique(characters.character)) == 24
    assert np.bincount(characters.alphabet).tolist() == [84, 12]
    assert np.bincount(characters.drawer).tolist() == [24] * 4
    assert characters.pixels.min() == 0  # ink is one, and paper zero
    assert characters.pixels.max() > 0.5
    assert 0.01 < float(characters.pixels.mean()) < 0.3
    assert make_pictures(characters.pixels).mean() > 0.7


def test_without_bending_and_turning_the_two_sides_are_the_same_character(
    characters: Characters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diptych_training.data.characters.bend_ink", lambda ink, generator: ink)

    def key(ink: torch.Tensor) -> bytes:
        return (ink * 255).round().byte().contiguous().numpy().tobytes()

    flat = {key(ink): i for i, ink in enumerate(characters.pixels)}
    drawn = Groups(characters).draw_from(np.random.default_rng(1), groups=6, size=3)[:2]
    for both in zip(*(side.unflatten(0, (6, 3)) for side in drawn), strict=True):
        sides = [[1 - picture[0] for picture in side] for side in both]
        turn = next(t for t in range(4) if key(sides[0][0].rot90(-t, (0, 1))) in flat)
        found = [[flat[key(p.rot90(-turn, (0, 1)))] for p in side] for side in sides]
        one, other = (characters.character[side] for side in found)
        assert (one == other).all()
        assert len(set(one)) == 3
        assert len(set(characters.alphabet[found[0]])) == 1
        assert (np.array(found[0]) != np.array(found[1])).all()


def test_a_composed_character_is_two_of_an_alphabet_and_looks_like_no_other(
    characters: Characters, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where all hands draw a character alike, two pictures of a group are equal if and only if they are one character.
    monkeypatch.setattr("diptych_training.data.characters.bend_ink", lambda ink, generator: ink)
    first = np.array([np.flatnonzero(characters.character == c)[0] for c in characters.character])
    alike = replace(characters, pixels=characters.pixels[torch.from_numpy(first)])
    groups = Groups(alike, composed=1.0)
    one, other, character, turn = groups.draw_from(np.random.default_rng(2), groups=4, size=6)
    assert torch.equal(one, other)
    assert character.min() > characters.character.max()
    assert len(set(character)) > 12
    for rows in np.split(np.arange(24), 4):
        assert len(set(turn[rows])) == 1
        equal = (one[rows][:, None] == one[rows][None, :]).flatten(2).all(2).numpy()
        assert np.array_equal(equal, character[rows][:, None] == character[rows][None, :])
    assert len(set(character[:6]) & set(character[6:])) == 0


def test_an_episode_is_one_alphabet_and_one_hand_a_side(characters: Characters) -> None:
    drawn = draw_episodes(characters, 7, ways=3, seed=2)
    assert len(drawn) == 7
    for episode in drawn:
        for side in (episode.queries, episode.candidates):
            assert len(set(characters.character[side])) == 3
            assert len(set(characters.alphabet[side])) == len(set(characters.drawer[side])) == 1
        assert (characters.character[episode.queries] == characters.character[episode.candidates]).all()
        assert characters.drawer[episode.queries[0]] != characters.drawer[episode.candidates[0]]
    assert all(characters.alphabet[e.queries[0]] == 0 for e in draw_episodes(characters, 9, ways=4))


def test_with_mirrors_a_character_in_eight_positions_is_eight_characters_half_the_groups_upright(
    characters: Characters,
) -> None:
    groups = Groups(characters, varied=True)
    turns = []
    for step in range(150):
        one, other, character, turn = groups.draw_from(np.random.default_rng(step), 2, 3)
        assert one.shape == other.shape == (6, 3, 28, 28)
        assert len(character) == 6
        turns += turn.reshape(2, 3).tolist()
    assert all(len(set(group)) == 1 for group in turns)
    assert {group[0] for group in turns} == set(range(8))
    assert 0.45 < np.mean([group[0] == 0 for group in turns]) < 0.68


def test_bending_keeps_the_ink_and_rippling_changes_the_weight_of_the_line(characters: Characters) -> None:
    bent, rippled = (change(characters.pixels, torch.Generator().manual_seed(0)) for change in (bend_ink, ripple_ink))
    assert not torch.equal(bent, characters.pixels)
    kept = bent.mean((1, 2)) / characters.pixels.mean((1, 2))
    assert 0.5 < kept.min() <= kept.max() < 2
    assert rippled.shape == characters.pixels.shape
    assert rippled.min() >= 0
    assert rippled.max() <= 1
    weight = rippled.sum((1, 2)) / characters.pixels.sum((1, 2))
    assert weight.min() < 0.95
    assert weight.max() > 1.2
