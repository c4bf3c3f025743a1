"""Versions of a picture: what each edit notes is what it did."""

from dataclasses import fields

import cv2
import numpy as np
import pytest
from PIL import Image

from diptych.bench.demo.collection import draw_scenes
from diptych_training.losses.versions import (
    CHANCES,
    FAMILIES,
    LARGEST,
    Edit,
    Props,
    Version,
    edit_version,
    keep_as_file,
    make_original,
    save_version,
    scale_version,
)

EDITS = [(family, number) for family, edits in FAMILIES.items() for number in range(len(edits))]


@pytest.fixture(scope="module")
def scene() -> Image.Image:
    return next(iter(draw_scenes(1, seed=3)))


PROPS = Props([np.tile(np.arange(200, dtype=np.uint8)[:, None, None], (1, 300, 3))])


def made(scene: Image.Image, edit: Edit, seed: int) -> Version:
    return edit_version(make_original(scene), edit, np.random.default_rng(seed), PROPS, scene.size)


@pytest.mark.parametrize(("family", "number"), EDITS)
def test_each_edit_notes_something_and_does_it_again_with_the_same_seed(scene, family, number):
    edit = FAMILIES[family][number]
    for seed in range(4):
        before, edited, again = make_original(scene), made(scene, edit, seed), made(scene, edit, seed)
        assert edited.picture.mode == "RGB"
        assert max(edited.picture.size) <= LARGEST
        assert edited.picture.tobytes() == again.picture.tobytes()
        noted = [
            field.name
            for field in fields(Version)
            if field.name != "picture" and np.any(getattr(edited, field.name) != getattr(before, field.name))
        ]
        # Nothing is lost with what lies in a frame; an edit of others that nothing tells of would teach that too.
        assert noted or family == "frames"
        assert edited.picture.size != scene.size or edited.picture.tobytes() != scene.tobytes()


@pytest.mark.parametrize("family", ["frames", "scenes", "crops", "sizes"])
def test_the_place_of_an_edit_is_where_its_pixels_went(scene, family):
    for edit in set(FAMILIES[family]):
        edited = made(scene, edit, 1)
        there = cv2.warpPerspective(np.asarray(scene), edited.place, edited.picture.size, flags=cv2.INTER_AREA)
        inside = cv2.warpPerspective(np.full(scene.size[::-1], 255, np.uint8), edited.place, edited.picture.size) > 254
        inside = cv2.erode(inside.astype(np.uint8), np.ones((9, 9))) > 0
        assert inside.mean() > 0.05
        assert np.median(np.abs(there.astype(int) - np.asarray(edited.picture))[inside]) <= 4


def test_what_a_crop_cuts_off_is_not_shown_and_a_frame_hides_nothing(scene):
    crops, (frame, *_) = FAMILIES["crops"], FAMILIES["frames"]
    for crop in crops:
        cut = made(scene, crop, 1)
        assert cut.shown.mean() == pytest.approx(np.prod(cut.picture.size) / np.prod(scene.size), abs=0.01)
        assert cut.shown.mean() < 1
    assert made(scene, frame, 1).shown.all()


def test_files_are_kept_without_loss_or_well_and_remember_the_worst(scene):
    rng = np.random.default_rng(1)
    qualities = [keep_as_file(make_original(scene), rng).quality for _ in range(40)]
    assert {quality >= 78 for quality in qualities} == {True}
    assert 5 < qualities.count(100.0) < 35
    assert save_version(save_version(make_original(scene), 30), 90).quality == 30


def test_blur_is_counted_in_pixels_of_the_original(scene):
    smaller = scale_version(make_original(scene), 0.25)
    assert (smaller.scale, smaller.blur) == (pytest.approx(0.25, abs=0.01), pytest.approx(2, abs=0.05))
    larger = scale_version(smaller, 4)
    assert larger.blur == smaller.blur


def test_every_family_has_a_chance():
    assert set(CHANCES) == set(FAMILIES)
    assert min(CHANCES.values()) > 0
