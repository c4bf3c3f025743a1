"""The configuration of a pair network, as one frozen, checked value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diptych_model.attention import BIASES
from diptych_model.encoders import Encoder, Residual, encoder_from
from diptych_model.mixers import Mixer, Msac, mixer_from
from diptych_model.settings import known_settings

SEGMENTS = ("relative", "added", "concatenated", "none")
SEAMS = ("closed", "tokens", "pixels")
RELATIONS = ("trunk", "late", "siamese")
QUESTIONS = (("match",), ("copy", "thing"))


@dataclass(frozen=True)
class PairConfig:
    """The shape of a `PairNetwork`.

    `pixels` is the side of a panel in pixels; `encoder` the part that sees one panel; `width` the channels d of a
    token; `embedding` the length of the retrieval vector; `blocks` and `mixer` the trunk; `expansion` the hidden width
    of its feed-forward part over `width`. `segment` and `bias` say how the trunk tells the panels apart and where it
    places them: bias *panel* has panel-local coordinates, *concatenated* those of t = [x, z], which are the paper's;
    segment *relative*, which the paper does not have, needs bias *panel*. `seam` says which windows cross it: none
    (*closed*), those of the trunk (*tokens*), or the encoder's too (*pixels*, the paper's literal form: segments are
    then of the pixels, before the stem, and what a picture brings to its pairs are its pixels). `relation` is what
    relates two panels: the *trunk* over the diptych, or a control in its place, *late* interaction or the *siamese*
    twin (`controls`). `questions` are what the logits answer: one for whatever is asked (*match*), or two, *copy* and
    *thing*. With `correspondence` the trunk begins with what the two panels have in common patch by patch, and each
    logit with what cosine and best matches say (`correspondence.Correspondence`); then the trunk has `channels` of its
    own for every `merge` x `merge` tokens, and with a `bank` of so many pictures knows how typical both are
    (`embedding.Embedding`). The embedding has `parts` of the same length: one for all questions, or one for each.
    """

    pixels: int = 128
    encoder: Encoder = field(default_factory=Residual)
    width: int = 96
    embedding: int = 128
    blocks: int = 4
    mixer: Mixer = field(default_factory=Msac)
    expansion: float = 2.0
    segment: str = "relative"
    bias: str = "panel"
    seam: str = "closed"
    relation: str = "trunk"
    questions: tuple[str, ...] = ("match",)
    correspondence: bool = False
    channels: int = 96
    merge: int = 1
    bank: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        _one_of("segment", self.segment, SEGMENTS)
        _one_of("bias", self.bias, BIASES)
        _one_of("seam", self.seam, SEAMS)
        _one_of("relation", self.relation, RELATIONS)
        if self.segment == "relative" and self.bias != "panel":
            raise ValueError(f"segment 'relative' lives in the panel bias; got bias {self.bias!r}: set bias = 'panel'")
        if (crossing := getattr(self.mixer, "crossing", 0)) and self.segment != "relative":
            raise ValueError(
                f"crossing sets what is seen across the seam apart, which needs segment = 'relative'; got segment "
                f"{self.segment!r} and crossing {crossing:g}: set crossing = 0 in the mixer"
            )
        if self.questions not in QUESTIONS:
            raise ValueError(f"questions must be one of {' or '.join(map(str, QUESTIONS))}, got {self.questions}")
        if self.pixels % self.encoder.divisor:
            raise ValueError(
                f"pixels must be a multiple of the encoder's reduction {self.encoder.divisor}, got {self.pixels}"
            )
        sizes = (self.pixels, self.width, self.embedding, self.blocks, self.expansion, self.channels, self.merge)
        if min(sizes) <= 0:
            raise ValueError(f"pixels, widths, embedding, blocks, expansion and merge must be positive, got {self}")
        if self.grid % self.merge:
            raise ValueError(f"merge must divide the grid of {self.grid} tokens, got {self.merge}")
        if not self.correspondence and self.merge > 1:
            raise ValueError(f"merge is for correspondence = true, got merge = {self.merge} without it")
        if self.parts not in (1, len(self.questions)) or self.embedding % self.parts:
            raise ValueError(
                f"an embedding has one part for all questions or one for each of the {len(self.questions)}, and its "
                f"length is a multiple of them; got {self.parts} parts and a length of {self.embedding}"
            )
        if self.bank < 0 or (self.bank and not self.correspondence):
            raise ValueError(f"bank is for correspondence = true, and 0 or more; got {self.bank}")
        if self.relation != "trunk" and self.seam == "pixels":
            raise ValueError(f"the relation {self.relation!r} needs tokens of one picture: use seam = 'closed'")
        if self.segments_pixels and getattr(self.encoder, "still", 0):
            raise ValueError(
                f"with seam = 'pixels' a segment that is {self.segment} learns through the encoder's first stages: set "
                "network.encoder.still = 0, or segment = 'relative' or 'none'"
            )

    @property
    def reduction(self) -> int:
        """The width of a token in pixels."""
        return self.encoder.reduction

    @property
    def grid(self) -> int:
        """Tokens along a side of a panel: N = M."""
        return self.pixels // self.reduction

    @property
    def token_shape(self) -> tuple[int, int, int]:
        """The shape (N, M, d) of a panel's tokens; the siamese twin has its embedding in their place, a network whose
        seam is open in pixels the pixels themselves.
        """
        if self.relation == "siamese":
            return 1, 1, self.embedding
        if self.seam == "pixels":
            return self.pixels, self.pixels, 3
        return self.grid, self.grid, self.width + (self.embedding_channels(self.grid) if self.carries_embedding else 0)

    @property
    def byte_channels(self) -> int:
        """Channels of a token that are kept in 8 bits: all that the panel part ends with. The embedding is not, with
        the tokens or in their place, nor are pixels.
        """
        return 0 if self.relation == "siamese" or self.seam == "pixels" else self.width

    @property
    def segments_pixels(self) -> bool:
        """True if segments are added or concatenated to the pixels, before the stem."""
        return self.seam == "pixels" and self.segment in ("added", "concatenated")

    @property
    def trunk_width(self) -> int:
        """Channels that the trunk is given."""
        return self.channels if self.correspondence else self.width

    @property
    def carries_embedding(self) -> bool:
        """True if the tokens carry the embedding, whose cosine the trunk begins with."""
        return self.correspondence and self.relation == "trunk"

    def embedding_channels(self, grid: int) -> int:
        """The channels that the embedding adds to each token of a grid, its typicality included."""
        typicality = self.parts if self.bank else 0
        return -(-(self.embedding + typicality) // grid**2)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, as written into a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PairConfig":
        """Read the output of `to_dict`; an unknown key is refused with a suggestion."""
        known = known_settings(cls, _from_format_2(values), "the network")
        if isinstance(known.get("encoder"), Mapping):
            known["encoder"] = encoder_from(known["encoder"])
        if "questions" in known:
            known["questions"] = tuple(known["questions"])
        if "mixer" in known:
            known["mixer"] = mixer_from(known["mixer"])
        return cls(**known)


def _from_format_2(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a checkpoint of format 2, which knew one encoder, in the present form."""
    if not {"stem_widths", "stem_depths"} & set(values):
        return values
    told = {"widths": values.get("stem_widths"), "depths": values.get("stem_depths")}
    rest = {name: value for name, value in values.items() if name not in ("stem_widths", "stem_depths")}
    return rest | {"encoder": {name: value for name, value in told.items() if value is not None}}


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
