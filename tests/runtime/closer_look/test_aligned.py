"""The aligned-pair network as a closer look asks it: what it is given, and that it tells a copy from a look-alike."""

import numpy as np
from PIL import Image, ImageFilter

from diptych_runtime.closer_look.aligned import STRIDE, Laid, aligned_odds, as_pair


def photograph(seed: int) -> np.ndarray:
    """Blots of colour of every size."""
    rng = np.random.default_rng(seed)
    layers = [
        np.asarray(Image.fromarray(rng.integers(0, 256, (size, size, 3), np.uint8)).resize((256, 192)), np.float32)
        for size in (6, 16, 48)
    ]
    return np.mean(layers, axis=0).astype(np.uint8)


def laid(a: np.ndarray, b: np.ndarray) -> Laid:
    return Laid(a, b, np.ones(a.shape[:2], bool))


def test_a_pair_is_scaled_and_filled_up_to_whole_strides() -> None:
    a, b = np.full((10, 17, 3), 255, np.uint8), np.full((10, 17, 3), 51, np.uint8)
    shown = np.zeros((10, 17), bool)
    shown[2:, :9] = True
    pair = as_pair(Laid(a, b, shown))
    assert pair.shape == (1, 7, 2 * STRIDE, 3 * STRIDE)
    assert (pair[0, :3, :10, :17] == 1).all()
    np.testing.assert_allclose(pair[0, 3:6, :10, :17], 0.2)
    assert pair[0, 6].sum() == shown.sum()
    assert not pair[0, :, 10:].any()
    assert not pair[0, :, :, 17:].any()


def test_an_edited_copy_has_higher_odds_than_a_look_alike_in_either_order() -> None:
    photo = photograph(0)
    soft = np.asarray(Image.fromarray(photo).filter(ImageFilter.GaussianBlur(1.5)))
    copy = (soft * 0.8 + 20).astype(np.uint8)
    alike = photo.copy()  # the same but for its middle
    alike[60:130, 80:180] = photograph(1)[60:130, 80:180]
    other = photograph(2)
    of_copy, of_alike, of_other = (aligned_odds(laid(photo, picture)) for picture in (copy, alike, other))
    assert of_copy > 0 > of_other
    assert of_copy > of_alike > of_other
    assert aligned_odds(laid(copy, photo)) == of_copy
    assert np.isfinite(aligned_odds(Laid(photo, copy, np.zeros((192, 256), bool))))
