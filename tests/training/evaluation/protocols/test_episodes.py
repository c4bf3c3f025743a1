"""Random episodes from folders of drawings, and the contract of the JSON."""

import json
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_training.data.episodes import DrawingFiles, draw_episodes, list_drawings, read_drawings
from diptych_training.errors import DataError
from diptych_training.evaluation.protocols.episodes import evaluate_episodes, open_drawings
from diptych_training.evaluation.stages import Entrants


def test_a_split_of_an_archive_is_read_with_its_characters_alphabets_and_drawers(omniglot: Path) -> None:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        drawings = read_drawings(folder, "validation")
    assert len(drawings.files) == 96
    assert all(path.parts[-4] == "validation" for path in drawings.files)
    assert np.bincount(drawings.alphabet).tolist() == [84, 12]
    assert np.bincount(drawings.character).tolist() == [4] * 24
    assert np.bincount(drawings.drawer).tolist() == [24] * 4


def test_the_json_has_the_keys_of_the_contract_and_an_episode_is_as_many_trials_as_ways(
    omniglot: Path, artifact: Path, capsys
) -> None:
    line = ["evaluate", "episodes", str(omniglot / "omniglot.zip"), "--split", "validation", "--episodes", "6"]
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["episodes"], result["trials"], result["ways"]) == (6, 30, 5)
    assert result["resampled"] == "episodes"
    low, high = result["interval"]
    assert low <= result["accuracy"] <= high
    assert result["gain"][0] == pytest.approx(result["accuracy"] - result["first_stage"]["accuracy"])
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json", "--seed", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["first_stage"] != result["first_stage"]


def test_queries_and_candidates_are_the_same_characters_by_two_hands(
    omniglot: Path, entrants: Entrants, colour
) -> None:
    control, seen = colour(), []
    control.scores = lambda query, references: seen.append((query, references)) or np.zeros(len(references))
    control.describe = lambda path: path
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        evaluate_episodes(Entrants(entrants.model, {}, [control]), folder, episodes=3, ways=4)
    assert len(seen) == 12
    for place, (query, candidates) in enumerate(seen):
        assert candidates[place % 4].parent == query.parent
        assert len({path.parent for path in candidates}) == 4
        assert {path.parent.parent for path in candidates} == {query.parent.parent}
        hands = {path.stem[-2:] for path in candidates}
        assert len(hands) == 1
        assert query.stem[-2:] not in hands


def sparse(hands_of: dict[int, list[int]]) -> DrawingFiles:
    """One alphabet; which hands drew each character."""
    pairs = np.array([(c, hand) for c, hands in hands_of.items() for hand in hands])
    files = tuple(Path(f"a/{c}/{c}_{hand}.png") for c, hand in pairs)
    return DrawingFiles(files, pairs[:, 0], np.zeros(len(pairs), np.int64), pairs[:, 1])


def test_characters_that_not_every_hand_drew_are_asked_only_of_those_who_did() -> None:
    drawings = sparse({0: [1, 2, 3], 1: [2, 3], 2: [3, 4, 2], 3: [5]})
    episodes = draw_episodes(drawings, 20, ways=3)
    for episode in episodes:
        assert {int(c) for c in drawings.character[episode.queries]} == {0, 1, 2}
        assert {int(h) for h in drawings.drawer[np.r_[episode.queries, episode.candidates]]} == {2, 3}
    with pytest.raises(DataError, match="no two hands had drawn the same 4 characters"):
        draw_episodes(drawings, 1, ways=4)


def test_folders_without_drawings_or_with_several_splits_are_refused(omniglot: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no drawing was found; expected <alphabet>/<character>/<id>_<drawer>\.png"):
        read_drawings(tmp_path)
    names = [PurePosixPath(f"x/{split}/alphabet/one/1_{hand}.png") for split in ("b", "a") for hand in (1, 2)]
    with pytest.raises(DataError, match="several splits, a, b: name one with --split"):
        list_drawings(names)
    with pytest.raises(DataError, match="no split is called 'c'; there are a, b"):
        list_drawings(names, "c")
    assert list_drawings(names, "b") == names[:2]


def test_more_ways_than_characters_and_no_episodes_are_refused(omniglot: Path, entrants: Entrants) -> None:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        with pytest.raises(DataError, match="no alphabet has 22 characters: the largest has 21"):
            evaluate_episodes(entrants, folder, ways=22)
        with pytest.raises(DataError, match="at least one episode of at least two ways, got 0 of 20"):
            evaluate_episodes(entrants, folder, episodes=0)
