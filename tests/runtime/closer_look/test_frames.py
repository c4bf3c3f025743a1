from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw

from diptych_runtime.closer_look.frames import MOST, Frames
from diptych_runtime.decoder import PictureLimits, read_header
from diptych_runtime.picture_facts import read_picture_facts

LIMITS = PictureLimits()


def scene(seed: int, size=(160, 120)) -> Image.Image:
    draw = np.random.default_rng(seed)
    small = Image.fromarray(draw.integers(0, 256, (6, 8, 3), np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def saved(frames: list[Image.Image], kind: str, **options) -> bytes:
    buffer = BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **options)
    return buffer.getvalue()


def frames_of(data: bytes, limits: PictureLimits = LIMITS) -> Frames:
    with read_header(data, "it") as header:
        count = read_picture_facts(data, header).frames
    return Frames.from_file(data, count, limits)


def test_an_animation_in_another_format_has_the_same_frames():
    scenes = [scene(seed) for seed in range(6)]
    first = frames_of(saved(scenes, "PNG"))
    assert first.small.shape == (6, 64, 64, 3)
    for kind in ("GIF", "WEBP", "TIFF"):
        again = frames_of(saved(scenes, kind))
        assert first.agrees_with(again)
        assert again.agrees_with(first)


def test_a_frame_that_is_shown_for_longer_may_be_stored_once():
    a, b, c = (scene(seed) for seed in range(3))
    merged, twice = frames_of(saved([a, b, c], "TIFF")), frames_of(saved([a, a, b, b, c], "TIFF"))
    assert merged.agrees_with(twice)
    assert twice.agrees_with(merged)
    assert not merged.agrees_with(frames_of(saved([a, b, c, a], "TIFF")))
    assert not merged.agrees_with(frames_of(saved([a, c, b], "TIFF")))


def test_pages_of_one_layout_are_not_the_same():
    def page(words: str) -> Image.Image:
        drawn = Image.new("L", (1240, 1754), 255)
        for line in range(30):
            ImageDraw.Draw(drawn).text((100, 100 + 50 * line), words * 12, 0, font_size=32)
        return drawn

    cover, one, other, touched = page("cover "), page("first "), page("other "), page("first ")
    ImageDraw.Draw(touched).text((100, 600), "seven", 0, font_size=32)
    for differing in (other, touched):
        assert not frames_of(saved([cover, one], "TIFF")).agrees_with(frames_of(saved([cover, differing], "TIFF")))
    assert frames_of(saved([cover, one], "TIFF")).agrees_with(
        frames_of(saved([cover.convert("1"), one.convert("1")], "TIFF", compression="tiff_lzw"))
    )


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_frames_together_cost_no_more_than_one_picture(kind, monkeypatch):
    data = saved([scene(seed) for seed in range(6)], kind)
    assert len(frames_of(data).small) == 6
    small = PictureLimits(pixels=5 * 160 * 120)
    assert len(frames_of(data, small).small) == 0, "too many to be compared, which is not the same as none"
    assert not frames_of(data, small).agrees_with(frames_of(data))
    assert len(Frames.from_file(data, MOST + 1, LIMITS).small) == 0


def test_pictures_of_a_burst_are_compared():
    burst = frames_of(saved([scene(seed) for seed in range(3)], "MPO", quality=95))
    scenes = [scene(seed) for seed in range(3)]
    assert burst.agrees_with(frames_of(saved(scenes, "TIFF")))
    heif = pytest.importorskip("pillow_heif")
    file = heif.from_pillow(scenes[0])
    for other in scenes[1:]:
        file.add_from_pillow(other)
    buffer = BytesIO()
    file.save(buffer, quality=90)
    assert burst.agrees_with(frames_of(buffer.getvalue()))


def test_a_file_that_is_cut_short_agrees_with_none():
    data = saved([scene(seed) for seed in range(6)], "GIF")
    assert not Frames.from_file(data[: len(data) // 2], 6, LIMITS).agrees_with(frames_of(data))
