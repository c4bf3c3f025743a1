from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_model import PairNetwork
from diptych_training.augment import draw_sprites
from diptych_training.photos import list_photos, load_photos
from diptych_training.validation import Validation


@pytest.fixture(scope="module")
def validation(archives: Path) -> Validation:
    photos = load_photos(archives, list_photos(archives, ("clothing", "flowers", "grocery")), 44)
    return Validation(photos, draw_sprites(8, 0), 32, queries=5, gallery=9)


def test_the_queries_are_the_same_every_time_and_held_out(archives: Path, validation: Validation) -> None:
    photos = load_photos(archives, list_photos(archives, ("clothing", "flowers", "grocery")), 44)
    again = Validation(photos, draw_sprites(8, 0), 32, queries=5, gallery=9)
    assert torch.equal(again.queries, validation.queries)
    held_out = photos.where(kinds=("clothing", "flowers"), split="validation")
    for place, gallery in zip(validation.truth, validation.gallery[validation.truth], strict=True):
        assert np.array_equal(photos.pixels[held_out[place]], gallery.numpy())


def test_both_stages_of_both_tasks_are_measured_and_weighed_into_one_score(
    validation: Validation, tiny_network: PairNetwork
) -> None:
    measured = validation.measure(tiny_network, candidates=4)
    assert all(0 <= value <= 1 for value in measured.values())
    for task in ("copy", "catalogue"):
        assert {f"{task}_recall@1", f"{task}_reranked_recall@1", f"{task}_reranked_micro_ap"} <= set(measured)
    expected = 0.7 * measured["copy_reranked_micro_ap"] + 0.3 * measured["catalogue_reranked_recall@1"]
    assert measured["score"] == expected


def test_re_ranking_keeps_the_candidates_of_the_first_stage(validation: Validation, tiny_network: PairNetwork) -> None:
    for first, after in (validation.copies(tiny_network, 4), validation.catalogue(tiny_network)):
        assert first.scores.shape == after.scores.shape
        assert (first.relevant.sum(1) == after.relevant.sum(1)).all()


def test_more_candidates_than_the_gallery_has_are_all_of_them(
    validation: Validation, tiny_network: PairNetwork
) -> None:
    first, _ = validation.copies(tiny_network, 10_000)
    assert first.scores.shape[1] == len(validation.gallery)
    assert first.relevant.any(1).all()
