"""Language modelling with one-dimensional MSAC (section 5 of the MSAC paper): a sentence is a picture of one row."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from diptych_model.operators import MSAC, Scale
from diptych_model.settings import known_settings
from diptych_studies.mixers.transformer import sinusoids

OBJECTIVES = ("causal", "masked")
BYTES = 256
WEIGHTS, CONFIG = "language.safetensors", "language.json"


def build_window_scales(widths: Sequence[int], *, heads: int, d_a: int) -> tuple[Scale, ...]:
    """Build the scales of `heads` one-headed SACs with windows of some widths.

    They are 1 x m for every m of `widths`, in equal shares.

    With one head a SAC's H_Y loses nothing, so that windows (1,) are multi-head self-attention in full rank, and every
    other choice differs from it in the windows of some heads and in nothing else.
    """
    if not widths or heads % len(widths):
        raise ValueError(f"{heads} heads cannot be shared equally among the windows {tuple(widths)}: give a multiple")
    return tuple(Scale(1, m, 1, d_a, d_a) for m in widths for _ in range(heads // len(widths)))


@dataclass(frozen=True)
class LanguageConfig:
    """The shape of a `LanguageModel`.

    `context` is the most tokens seen at once; `vocabulary` how many there are, bytes by default; `width` the channels d
    of one, an even number; `blocks` how many; `scales` those of every block's MSAC, with n = 1 and without a stride;
    `expansion` the hidden width of the feed-forward part over `width`. Objective *causal* predicts each token from
    those before it, *masked* the hidden ones from both sides, as BERT.
    """

    context: int = 128
    width: int = 96
    blocks: int = 3
    scales: tuple[Scale, ...] = build_window_scales((1, 2, 3), heads=6, d_a=16)
    expansion: float = 2.5
    objective: str = "causal"
    vocabulary: int = BYTES

    def __post_init__(self) -> None:
        if min(self.context, self.width, self.blocks, self.vocabulary) < 1 or self.hidden_width < 1:
            raise ValueError(f"context, width, vocabulary, blocks and expansion must be positive, got {self}")
        if self.width % 2:
            raise ValueError(f"the positional encoding needs an even width, got {self.width}")
        if not self.scales:
            raise ValueError("a language model needs at least one scale, got none")
        for scale in self.scales:
            if scale.n != 1 or scale.stride != 1:
                raise ValueError(
                    f"a sentence has one row and keeps every position: scales need n = 1 and stride = 1, got {scale}"
                )
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}")

    @property
    def mask(self) -> int:
        """The token that stands for a hidden one."""
        return self.vocabulary

    @property
    def hidden_width(self) -> int:
        """The hidden width of the feed-forward part."""
        return round(self.width * self.expansion)

    @property
    def causal(self) -> bool:
        """True if a position sees only itself and earlier ones."""
        return self.objective == "causal"

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, as written into a checkpoint."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "LanguageConfig":
        """Read the output of `to_dict`; an unknown key is refused with a suggestion."""
        return cls(**settings_with_scales(cls, values, "a language model"))


def settings_with_scales(cls: type, values: Mapping[str, Any], of: str) -> dict[str, Any]:
    """The settings of a dataclass from plain values, `scales` as such; an unknown key is refused with a suggestion."""
    known = known_settings(cls, values, of)
    if "scales" in known:
        known["scales"] = tuple(Scale(**known_settings(Scale, scale, "a scale")) for scale in known["scales"])
    return known


class EncoderBlock(nn.Module):
    """x + MSAC(norm x), then x + feed-forward(norm x), over sequences."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        d, hidden = config.width, config.hidden_width
        self.norm = nn.LayerNorm(d)
        self.msac = MSAC(d, 1, config.context, config.scales, d_phi=d, causal=config.causal)
        with torch.no_grad():
            self.msac.H_phi.mul_(0.5)
        self.feed = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x: Float[Tensor, "batch tokens d"]) -> Float[Tensor, "batch tokens d"]:
        """(B, T, d) -> the same shape."""
        x = x + self.msac(self.norm(x)[:, None])[:, 0]
        return x + self.feed(x)


class LanguageModel(nn.Module):
    """Tokens to the scores of tokens: embedding and sinusoids, blocks, and the embedding again as the output (tied).

    Tokens 0 to V - 1 are bytes or words, V stands for a hidden one. Causal: the scores at a position are those of the
    *next* token. Masked: those of the token at that position.
    """

    def __init__(self, config: LanguageConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or LanguageConfig()
        self.embedding = nn.Embedding(config.vocabulary + 1, config.width)
        # Small enough for an output, and enlarged to unit variance as an input (Vaswani et al. 2017, section 3.4).
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.register_buffer("places", sinusoids(config.context, config.width), persistent=False)
        blocks = (EncoderBlock(config) for _ in range(config.blocks))
        self.blocks = cast(Sequence[EncoderBlock], nn.ModuleList(blocks))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, tokens: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens vocabulary"]:
        """Tokens (B, T), T up to the context -> logits (B, T, V). Raises `ValueError` for another shape or type."""
        if tokens.dim() != 2 or not 1 <= tokens.shape[1] <= self.config.context:
            raise ValueError(
                f"tokens must be (B, T) with T from 1 to the context of {self.config.context}, "
                f"got {tuple(tokens.shape)}: cut the text into windows"
            )
        if tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens must be int64 or int32, 0 to {self.config.mask}, got {tokens.dtype}: call .long() on bytes"
            )
        places = cast(Tensor, self.places)[: tokens.shape[1]]
        x = self.embedding(tokens) * sqrt(self.config.width) + places
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight[: self.config.vocabulary])


def parameters_of(config: LanguageConfig) -> int:
    """The number of parameters that a model of this shape learns."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in LanguageModel(config).parameters())


def with_parameters(config: LanguageConfig, parameters: int) -> LanguageConfig:
    """The same shape with the feed-forward expansion that brings the model nearest to so many parameters."""
    least, most = (parameters_of(replace(config, expansion=hidden / config.width)) for hidden in (1, 2))
    hidden = 1 + round((parameters - least) / (most - least))
    if hidden < 1:
        raise ValueError(
            f"the scales alone take {least} parameters, more than the {parameters} asked for: "
            "ask for more, or for smaller or fewer windows"
        )
    return replace(config, expansion=hidden / config.width)


def save_language(model: LanguageModel, directory: Path, metadata: Mapping[str, Any] | None = None) -> None:
    """Write `language.safetensors` and `language.json` into a directory; `metadata` must be JSON."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, directory / WEIGHTS)
    described = {"model": model.config.to_dict(), "metadata": dict(metadata or {})}
    (directory / CONFIG).write_text(json.dumps(described, indent=2) + "\n")


def load_language(directory: Path) -> tuple[LanguageModel, dict[str, Any]]:
    """Return the model, in evaluation mode, and its metadata; `ValueError` where the directory holds none."""
    for name in (CONFIG, WEIGHTS):
        if not (directory / name).is_file():
            raise ValueError(f"a language model is a directory with {CONFIG} and {WEIGHTS}; {directory} has no {name}")
    described = json.loads((directory / CONFIG).read_text())
    model = LanguageModel(LanguageConfig.from_dict(described["model"]))
    model.load_state_dict(load_file(directory / WEIGHTS))
    return model.eval(), described["metadata"]
