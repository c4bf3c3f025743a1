"""What a pair network is made of, as one frozen, checked value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diptych_model.attention import BIASES
from diptych_model.mixers import Mixer, Msac, mixer_from
from diptych_model.settings import known_settings

SEGMENTS = ("relative", "added", "concatenated", "none")
SEAMS = ("closed", "tokens", "pixels")
RELATIONS = ("trunk", "late", "siamese")


@dataclass(frozen=True)
class PairConfig:
    """The shape of a `PairNetwork`.

    `pixels` is the side of a panel in pixels; `stem_widths` and `stem_depths` the residual stages of the panel part
    (the first at a quarter of the resolution, each later one halves it); `width` the channels d of a token;
    `embedding` the length of the retrieval vector; `blocks` and `mixer` the trunk; `expansion` the hidden width of
    its feed-forward part over `width`. `segment` and `bias` say how the trunk tells the panels apart and where it
    places them: bias *panel* has panel-local coordinates, *concatenated* those of t = [x, z]; segment *relative* needs
    bias *panel*. `seam` says which windows cross it: none (*closed*), those of the trunk (*tokens*), or the stem's too
    (*pixels*, the paper's literal form; nothing of a picture can then be stored). `relation` is what relates two
    panels: the *trunk* over the diptych, or a control in its place, *late* interaction or the *siamese* twin
    (`controls`).
    """

    pixels: int = 128
    stem_widths: tuple[int, ...] = (32, 64, 128)
    stem_depths: tuple[int, ...] = (1, 1, 1)
    width: int = 96
    embedding: int = 128
    blocks: int = 4
    mixer: Mixer = field(default_factory=Msac)
    expansion: float = 2.0
    segment: str = "relative"
    bias: str = "panel"
    seam: str = "closed"
    relation: str = "trunk"

    def __post_init__(self) -> None:
        _one_of("segment", self.segment, SEGMENTS)
        _one_of("bias", self.bias, BIASES)
        _one_of("seam", self.seam, SEAMS)
        _one_of("relation", self.relation, RELATIONS)
        if self.segment == "relative" and self.bias != "panel":
            raise ValueError(f"segment 'relative' lives in the panel bias; got bias {self.bias!r}: set bias = 'panel'")
        if len(self.stem_widths) != len(self.stem_depths) or not self.stem_widths:
            raise ValueError(
                f"stem_widths and stem_depths need one entry a stage, got {self.stem_widths} and {self.stem_depths}"
            )
        if self.pixels % self.reduction:
            raise ValueError(f"pixels must be a multiple of the stem's reduction {self.reduction}, got {self.pixels}")
        sizes = (
            self.pixels,
            self.width,
            self.embedding,
            self.blocks,
            self.expansion,
            *self.stem_widths,
            *self.stem_depths,
        )
        if min(sizes) <= 0:
            raise ValueError(f"pixels, widths, depths, embedding, blocks and expansion must be positive, got {self}")

    @property
    def reduction(self) -> int:
        """How many pixels a token is wide."""
        return 4 * 2 ** (len(self.stem_widths) - 1)

    @property
    def grid(self) -> int:
        """Tokens along a side of a panel: N = M."""
        return self.pixels // self.reduction

    @property
    def token_shape(self) -> tuple[int, int, int]:
        """(N, M, d) of what is kept of a panel for relating it; the siamese twin keeps its embedding."""
        return (1, 1, self.embedding) if self.relation == "siamese" else (self.grid, self.grid, self.width)

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
        if "mixer" in known and isinstance(known["mixer"], Mapping):
            known["mixer"] = mixer_from(known["mixer"])
        return cls(**known)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
