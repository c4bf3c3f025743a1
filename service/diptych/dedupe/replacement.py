"""Which of two copies may go: one in place of which the other can stand, whatever it is looked at for."""

from __future__ import annotations

from diptych.dedupe.comparison import Comparison, Side
from diptych.pictures.file_info import Picture

_SHOWN = 0.02  # of a picture: less of it that is missing in the other is the error of laying one over the other
_PIXELS = 0.97  # of the other's along a direction: a picture of as many has no fewer but for rounding
_LACK, _MORE = 0.25, 0.1  # of the other's detail: what may be missing, and how much more than is missing in the other
_GRAIN = 0.5  # levels of noise by which one is noisier, if it has much more
_SPECKLED = 5.0  # levels of noise that are no shades
_DOTS = 20.0  # levels of noise that no photograph has, and the dots of two colours have
_GREY = 0.3  # deviation of the hues of what has none
_HUES, _PALE = 1.5, 0.35  # deviation of the hues of what has colour, and the share of it that a copy keeps
_FLAT, _FLATTER = 1.5, 1.6  # levels of shades that one has lost, and times what the other has lost
_BLURRED = 0.45  # of the other's detail that a blurred picture lacks, in which no blocks are left either
_COARSE = 0.5  # by which they stand out whatever else differs
_BLOCKS = 0.12  # by which JPEG's blocks stand out more
_SOFT_PARTS = 0.04  # of the blocks with detail: a part that is blurred, and not in the other
_SOFT = 0.1  # of the other's detail that a picture of more pixels lacks, as one does that was made larger
_TONE = 2.5  # levels by which the tones of two may differ
_SHARPENED = 0.6  # of the finest detail alike in both: one was sharpened, or the other blurred a little
_LIKE, _FILTERED = 0.8, 0.3  # coherence of two of which one was filtered, and by how much their detail differs
_MUCH = 0.62  # of the detail that a picture lacks that was blurred, and none that was not sharpened
_CLEANER = "less compressed"  # which counts only where nothing else does
_COLOURS, _SHADES = "its colours", "more shades"
_STEPS = 0.06  # of the overlap, in which steps in place of shades may look like something else
UNKNOWN = "it cannot be told which of the two is the original"


def can_replace(kept: Picture, going: Picture, seen: Comparison | None) -> str | None:
    """None where `kept` can stand for `going`, of which it was `seen` laid over it, or the reason why it cannot."""
    if kept.id == going.id:
        return None
    held = _held_by_file(going, kept)
    if held or seen is None:
        return held or UNKNOWN
    if seen.equal:
        return None
    mine, other = seen.a, seen.b
    strength, lacks = _advantage(mine, other), _advantage(other, mine)
    if lacks and not (lacks == _CLEANER and strength):
        return lacks
    if mine.blocks > other.blocks + _COARSE:
        return "far less compressed"
    if mine.soft > _SOFT_PARTS:
        return "sharper in a part"
    if seen.is_turned:
        return "they do not lie the same way"
    if other.pixels < _PIXELS and mine.lack > _SOFT:
        return "sharper for its size"
    is_stepped = strength == _SHADES and seen.differing < _STEPS
    if seen.differing and not other.is_marked and not is_stepped:
        return "they differ in a part"
    if other.lack < _MUCH and seen.coherence > _SHARPENED and _is_sharper(mine, other):
        return "one may have been sharpened"
    if strength == "more pixels" and _is_noisier(mine, other):
        return "one is noisier"
    if seen.tone > _TONE and strength not in (_COLOURS, _SHADES):
        return "their tones differ"
    return None if strength not in (None, _CLEANER) else _open_question(seen)


def better_because(kept: Picture, going: Picture, seen: Comparison | None) -> str | None:
    """The reason for which `kept` is the better of two pictures; None where only their files differ."""
    if kept.id == going.id or seen is None:
        return None
    held = _held_by_file(kept, going)
    return held or (None if seen.equal else _advantage(seen.a, seen.b))


def name_edits(kept: Picture, going: Picture, seen: Comparison | None) -> list[str]:
    """What distinguishes `going` from `kept`, in words: "mirrored", "smaller"."""
    if kept.id == going.id:
        return []
    if seen is None:
        return []
    found = ["mirrored"] * seen.mirrored
    if abs(seen.angle) > 3:
        found.append(f"turned by {abs(seen.angle):.0f}°")
    if seen.equal:
        return found or ["the same pixels"]
    mine, other = seen.a, seen.b
    if mine.outside > _SHOWN and not mine.drawn_around:
        found.append("cropped")
    if other.outside > _SHOWN and other.drawn_around:
        found.append("framed")
    elif other.outside > _SHOWN and mine.outside <= _SHOWN:
        found.append("showing more")
    if other.pixels < _PIXELS:
        found.append("smaller")
    elif mine.pixels < _PIXELS:
        found.append("larger")
    if mine.colour > _HUES and other.colour < _PALE * mine.colour:
        found.append("without its colours")
    if other.is_marked:
        found.append("with something drawn on it")
    elif seen.differing:
        found.append("different in a part")
    if _is_sharper(mine, other):
        found.append("blurred")
    if _is_flatter(other, mine):
        found.append("with fewer shades")
    if not found and seen.tone > _TONE:
        found.append("with other tones")
    return found or ["saved again"]


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
    return None


def _advantage(one: Side, other: Side) -> str | None:
    """What a picture has before the other, the weightiest first; None where it has nothing."""
    if one.outside > _SHOWN and not one.drawn_around:
        return "it shows more"
    if other.is_marked and not one.is_marked:
        return "nothing drawn on it"
    if other.outside > _SHOWN and other.drawn_around:
        return "nothing around it"
    if other.pixels < _PIXELS:
        return "more pixels"
    if one.colour > _HUES and other.colour < _GREY:
        return _COLOURS
    if _is_flatter(one, other):  # what it has more of detail and hues are the steps between its shades
        return None
    if one.colour > _HUES and other.colour < _PALE * one.colour:
        return _COLOURS
    if _is_sharper(one, other) and not _is_blockier(one, other):  # of which detail is an error of coding
        return "sharper"
    if _is_flatter(other, one) or other.noise > 2 * one.noise + _DOTS:
        return _SHADES
    if _is_blockier(other, one) and not one.is_marked:
        return _CLEANER
    return None


def _is_flatter(one: Side, other: Side) -> bool:
    """True for what has steps in place of the other's shades; the noise of the other is none."""
    return one.flattened > _FLATTER * other.flattened + _FLAT and other.noise < one.noise + _SPECKLED


def _is_blockier(one: Side, other: Side) -> bool:
    """True for what was saved with more loss, and not for what has blocks that a filter took from the other."""
    is_filtered = other.lack > _BLURRED or (other.lack - one.lack > _MORE and one.lack < -_MORE)
    return one.blocks > other.blocks + (_COARSE if is_filtered else _BLOCKS)


def _is_noisier(one: Side, other: Side) -> bool:
    return one.noise > 1.7 * other.noise + _GRAIN


def _is_sharper(one: Side, other: Side) -> bool:
    """True for what has more detail, and its noise with it: the steps of a few shades have none."""
    is_stepped = other.noise > 0.1 and one.noise < 0.5 * other.noise
    is_speckled = one.noise > 4 * other.noise + 1.5
    return other.lack > max(_LACK, one.lack + _MORE) and not is_stepped and not is_speckled


def _open_question(seen: Comparison) -> str | None:
    """Why it is open which of two is the original, neither of which has anything before the other."""
    if max(seen.a.margin, seen.b.margin) > _SHOWN:
        return "one has a margin that the other lacks"
    if seen.coherence > _LIKE and abs(seen.a.lack - seen.b.lack) > _FILTERED:
        return "one may have been sharpened"
    if _is_noisier(seen.a, seen.b) or _is_noisier(seen.b, seen.a):
        return "one is noisier"
    return None
