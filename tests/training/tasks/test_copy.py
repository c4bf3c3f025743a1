import numpy as np
import torch

from diptych_training.data import archives as photos
from diptych_training.data.augment import HARD, HEAVY, edit_photos
from diptych_training.tasks import copy

ARCHIVES = ["clothing", "flowers", "goods"]


def test_photos_of_one_subject_and_near_duplicates_are_no_rivals(opened, drawn) -> None:
    copies = opened("copy", queries=1000, archives=["goods"])
    part = drawn(copies)
    subjects = copies.subject
    assert len(set(subjects)) < len(subjects)
    unknown = ~(part.match | part.rival)
    assert unknown.any()
    assert not unknown.diagonal().any()


def test_a_query_and_its_reference_show_the_same_colours_at_the_same_places(opened, drawn) -> None:
    part = drawn(opened("copy", queries=24, archives=ARCHIVES))
    assert part.linked
    corners = part.references.places[:, 0, 0]
    unchanged = (corners - torch.tensor([-15 / 16, -15 / 16])).abs().amax(-1) < 1e-6
    assert 0 < unchanged.sum() < 24


def test_mined_neighbours_come_together(opened, drawn) -> None:
    copies = opened("copy", queries=8, archives=ARCHIVES)
    count = len(copies.pixels)
    copies.neighbours = np.stack([np.roll(np.arange(count), -shift) for shift in range(1, 9)], 1)
    apart = [(copies.panels / 255 - shown).abs().mean((1, 2, 3)) for shown in drawn(copies).references.pictures]
    places = [int(distance.argmin()) for distance in apart if distance.min() < 1e-6]
    assert len(places) > 1
    # One photo and seven of the eight that follow it.
    assert min(max((place - first) % count for place in places) for first in places) <= 8


def test_the_validation_set_asks_for_held_out_photos_and_as_a_whole_for_all_of_them(opened) -> None:
    copies = opened("copy", archives=ARCHIVES)
    held_out = copies.photos.find_places(kinds=tuple(ARCHIVES), split="validation")
    validation, whole = copies.validation(), copies.validation(whole=True)
    assert len(whole.queries) == len(held_out)
    assert len(held_out) < len(whole.gallery) <= len(held_out) + len(copies.pixels)
    assert len(validation.gallery) <= len(whole.gallery)
    assert validation.headline == "micro_ap"
    wanted = {photo.tobytes() for photo in copies.photos.pixels[held_out]}
    for row in validation.relevant:
        assert validation.gallery[int(row.argmax())].numpy().tobytes() in wanted


def test_of_distractors_the_original_is_not_shown_and_everything_else_is_a_rival(opened, drawn) -> None:
    copies = opened("copy", queries=24, archives=ARCHIVES, distractors=0.5)
    part = drawn(copies)
    asked, shown = part.match.shape
    assert 0 < shown < asked
    assert (part.match.sum(1) <= 1).all()
    assert (part.match.sum(0) == 1).all()
    assert part.rival[~part.match.any(1)].any(1).all()


def test_hard_edits_are_learnt_from_and_examined_with_edits_of_another_hand(opened, drawn) -> None:
    heavy, hard = (opened("copy", queries=6, archives=ARCHIVES, strength=name) for name in ("heavy", "hard"))
    assert not torch.equal(drawn(heavy).queries.pictures, drawn(hard).queries.pictures)
    validation, other = hard.validation(), heavy.validation()
    assert torch.equal(hard.validation().queries, validation.queries)
    assert not torch.equal(other.queries, validation.queries)
    found = validation.relevant.any(1)
    assert found.any()
    assert not found[3::4].any()


def test_a_share_of_the_queries_has_the_few_edits_of_the_first_release(opened, drawn, monkeypatch) -> None:
    strengths = []

    def edited(photos, size, strength, *rest, **more):
        strengths.append((strength, len(photos)))
        return edit_photos(photos, size, strength, *rest, **more)

    monkeypatch.setattr(copy, "edit_photos", edited)
    copies = opened("copy", queries=10, archives=ARCHIVES, strength="hard", easy=0.3)
    part = drawn(copies)
    assert len(part.queries.pictures) == 10
    assert [count for strength, count in strengths if strength == HEAVY] == [3]
    assert [count for strength, count in strengths if strength == HARD] == [7]


def test_documents_of_one_layout_are_rivals_and_photos_that_look_like_duplicates_are_not(opened, monkeypatch) -> None:
    monkeypatch.setattr(photos, "DOCUMENT_PICTURES", 24)
    copies = opened("copy", archives=["goods", "documents"])
    drawn = np.array([row.kind == "documents" for row in copies.photos.rows])
    assert drawn.sum() == 24
    assert len(set(copies.kin[drawn])) == 24
    assert not set(copies.kin[drawn]) & set(copies.kin[~drawn])
    assert len(set(copies.kin[~drawn])) < (~drawn).sum()
