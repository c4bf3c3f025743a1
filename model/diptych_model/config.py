"""What a pair network is made of, as one frozen, checked value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from diptych_model.operators import Scale

SEGMENTS = ("relative", "added", "concatenated", "none")
BIASES = ("panel", "concatenated", "none")


@dataclass(frozen=True)
class PairConfig:
    """The shape of a `PairNetwork`.

    `pixels` is the side of a panel in pixels; `stem_widths` and `stem_depths` the residual stages of the panel part
    (the first at a quarter of the resolution, each later one halves it); `width` the channels d of a token;
    `embedding` the length of the retrieval vector; `blocks` and `scales` the trunk; `expansion` the hidden width of
    its feed-forward part over `width`. `segment` and `bias` say how the trunk tells the panels apart and where it
    places them: bias *panel* has panel-local coordinates, *concatenated* those of t = [x, z]; segment *relative* needs
    bias *panel*.
    """

    pixels: int = 128
    stem_widths: tuple[int, ...] = (32, 64, 128)
    stem_depths: tuple[int, ...] = (1, 1, 1)
    width: int = 96
    embedding: int = 128
    blocks: int = 4
    scales: tuple[Scale, ...] = (Scale(1, 1), Scale(3, 3, separable=True))
    expansion: float = 2.0
    segment: str = "relative"
    bias: str = "panel"

    def __post_init__(self) -> None:
        _one_of("segment", self.segment, SEGMENTS)
        _one_of("bias", self.bias, BIASES)
        if self.segment == "relative" and self.bias != "panel":
            raise ValueError(f"segment 'relative' lives in the panel bias; got bias {self.bias!r}: set bias = 'panel'")
        if len(self.stem_widths) != len(self.stem_depths) or not self.stem_widths:
            raise ValueError(
                f"stem_widths and stem_depths need one entry a stage, got {self.stem_widths} and {self.stem_depths}"
            )
        if self.pixels % self.reduction:
            raise ValueError(f"pixels must be a multiple of the stem's reduction {self.reduction}, got {self.pixels}")
        if not self.scales or self.blocks < 1:
            raise ValueError(
                f"the trunk needs a block and a scale, got {self.blocks} blocks, {len(self.scales)} scales"
            )

    @property
    def reduction(self) -> int:
        """How many pixels a token is wide."""
        return 4 * 2 ** (len(self.stem_widths) - 1)

    @property
    def grid(self) -> int:
        """Tokens along a side of a panel: N = M."""
        return self.pixels // self.reduction

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, as written into a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PairConfig":
        """Read what `to_dict` wrote; an unknown key is refused with a suggestion."""
        known = known_settings(cls, values, "the network")
        for name in ("stem_widths", "stem_depths"):
            if name in known:
                known[name] = tuple(known[name])
        if "scales" in known:
            known["scales"] = tuple(Scale(**known_settings(Scale, scale, "a scale")) for scale in known["scales"])
        return cls(**known)


def known_settings(cls: type, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the values as a dict if each is a field of the dataclass; refuse an unknown one with a suggestion."""
    names = [field.name for field in fields(cls)]
    for key in values:
        if key not in names:
            near = get_close_matches(key, names, 1)
            raise ValueError(
                f"{what} has no setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else f": {names}")
            )
    return dict(values)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
