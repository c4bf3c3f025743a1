"""Which of two copies may go: one in place of which the other can stand, whatever it is looked at for."""

from __future__ import annotations

from diptych.pictures.file_info import Picture
from diptych_runtime.closer_look.comparison import LOSSES, Comparison, Side

UNKNOWN = "it cannot be told which of the two is the original"
ENOUGH = "it shows all that the other shows"
_NOT_COMPARED = "its further frames, transparency or finer shades were not compared"
_MARKED = "something is drawn or written on it"
_SURELY_NOTHING = -2.0  # log-odds that anything is lost, below which a picture may go
_PIXELS = 0.97  # of the other's along a direction: a picture of as many has no fewer but for rounding
_HUES, _GREY = 1.5, 0.6  # levels of hues of what has some, and of what has none
# What is lost, said of the picture that has it and of the one that lacks it.
_WORDS: dict[str, tuple[str, str]] = {
    "scope": ("it shows more", "cropped"),
    "cleanness": ("nothing drawn on it", "with something drawn on it"),
    "sharpness": ("sharper", "blurred"),
    "colours": ("its colours", "without its colours"),
    "shades": ("more shades", "with fewer shades"),
    "quality": ("less compressed", "saved with loss"),
    "tones": ("its tones", "with other tones"),
    "grain": ("neither sharpened nor noisy", "sharpened or noisy"),
    "part": ("they differ in a part", "different in a part"),
    "frame": ("nothing around it", "framed"),
}


def can_replace(kept: Picture, going: Picture, seen: Comparison | None) -> str | None:
    """None where `kept` can stand for `going`, of which it was `seen` laid over it, or the reason why it cannot."""
    if kept.id == going.id:
        return None
    held = _held_by_file(going, kept)
    if held or seen is None:
        return held or UNKNOWN
    if going.frames > 1 or going.has_alpha or going.bits > 8:
        return _NOT_COMPARED
    if seen.equal:
        return None
    if seen.is_turned:
        return "they do not lie the same way"
    if seen.a.losses["cleanness"] > 0:
        return _MARKED
    is_grey = seen.a.hues > _HUES and seen.b.hues < _GREY  # of which nobody could say how its tones were
    others = [odds for loss, odds in seen.b.losses.items() if loss not in ("tones", "colours", "anything")]
    if (max(others) if is_grey else seen.b.losses["anything"]) < _SURELY_NOTHING:
        return "more pixels" if seen.a.pixels < _PIXELS else None
    likely = _name_losses(seen.b)
    return _WORDS[likely[0]][0] if likely else UNKNOWN


def better_because(kept: Picture, going: Picture, seen: Comparison | None) -> str | None:
    """The reason for which `kept` is the better of two pictures; None where only their files differ."""
    if kept.id == going.id or seen is None:
        return None
    held = _held_by_file(kept, going)
    if held or seen.equal:
        return held
    likely = _name_losses(seen.a)
    if likely:
        return _WORDS[likely[0]][0]
    if seen.b.pixels < _PIXELS:
        return "more pixels"
    # A file without loss that was made of the other would have its pixels.
    is_lossless = kept.is_lossless and not going.is_lossless and seen.a.pixels >= _PIXELS
    return "saved without loss" if is_lossless else None


def is_likelier_original(one: Picture, other: Picture, seen: Comparison | None) -> bool:
    """True if the first of two pictures, of which neither need stand for the other, is to be kept rather.

    What only its file holds comes first, then what it shows better; what both show otherwise says nothing.
    """
    if seen is None:
        return False
    held = _held_by_file(one, other), _held_by_file(other, one)
    if any(held):
        return not held[1]
    mine, its = (max(side.losses[loss] for loss in _WORDS if loss != "part") for side in (seen.a, seen.b))
    return mine > its


def name_edits(kept: Picture, going: Picture, seen: Comparison | None) -> list[str]:
    """What distinguishes `going` from `kept`, in words: "mirrored", "smaller"."""
    if kept.id == going.id or seen is None:
        return []
    found = ["mirrored"] * seen.mirrored
    if abs(seen.angle) > 3:
        found.append(f"turned by {abs(seen.angle):.0f}°")
    if seen.equal:
        return found or ["the same pixels"]
    mine, other = seen.a, seen.b
    lacking = _name_losses(mine)
    if other.pixels < _PIXELS:
        found.append("smaller")
        lacking = [loss for loss in lacking if loss != "sharpness"]
    elif mine.pixels < _PIXELS:
        found.append("larger")
    if "scope" in _name_losses(other):
        found.append("showing more")
    return [*found, *(_WORDS[loss][1] for loss in lacking)] or ["other pixels"]


def _name_losses(side: Side) -> list[str]:
    """What is more likely lost than not where a picture goes, the likeliest first."""
    named = [loss for loss in LOSSES if loss in _WORDS and side.losses[loss] > 0]
    return sorted(named, key=lambda loss: -side.losses[loss])


def _held_by_file(one: Picture, other: Picture) -> str | None:
    """What the file of one picture holds that the other's does not."""
    if other.is_damaged and not one.is_damaged:
        return "an undamaged file"
    if one.frames > other.frames:
        return "more frames or pages"
    if one.trailing and not other.trailing:
        return "a film or other data behind the picture"
    if one.bits > max(8, other.bits):
        return "finer shades"
    if one.has_alpha and not other.has_alpha:
        return "its transparency"
    if one.exif and not other.exif:
        return "its camera, date or place"
    if set(one.descriptions.split()) - set(other.descriptions.split()):
        return "words or a place in its file"
    return None
