"""A small BERT (Devlin et al. 2018) with MSAC in the place of its attention (section 5 of the MSAC paper): hidden words
are guessed from both sides, and whether a second span of text follows the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from diptych_model.operators import Scale
from diptych_studies.mixers.transformer import sinusoids
from diptych_studies.networks.language_model import (
    EncoderBlock,
    LanguageConfig,
    build_window_scales,
    settings_with_scales,
)

First = Int[Tensor, "batch first"]
Second = Int[Tensor, "batch second"]
Tokens = Int[Tensor, "batch tokens"]


@dataclass(frozen=True)
class BertConfig:
    """The shape of a `Bert`.

    `words` are those of the vocabulary, beside which there are tokens for a beginning, a separation and a hidden word;
    `span` is the most words of each of the two spans; `width`, `blocks`, `scales` and `expansion` are a
    `LanguageModel`'s. Without `segments` nothing but its place tells a word of the first span from one of the second.
    """

    words: int
    span: int = 32
    width: int = 96
    blocks: int = 2
    scales: tuple[Scale, ...] = build_window_scales((1, 2, 3), heads=6, d_a=16)
    expansion: float = 2.5
    segments: bool = True

    def __post_init__(self) -> None:
        if min(self.words, self.span) < 1:
            raise ValueError(f"words and span must be positive, got {self.words} and {self.span}")
        self.encoder.to_dict()

    @property
    def encoder(self) -> LanguageConfig:
        """The blocks as those of a masked language model of begin, first, separation, second, separation."""
        shape = (self.width, self.blocks, self.scales, self.expansion)
        return LanguageConfig(2 * self.span + 3, *shape, objective="masked", vocabulary=self.words)

    @property
    def mask(self) -> int:
        """The token of a hidden word."""
        return self.words

    @property
    def begin(self) -> int:
        """The token at whose place the answer is read off: BERT's [CLS]."""
        return self.words + 1

    @property
    def separation(self) -> int:
        """The token behind each span: BERT's [SEP]."""
        return self.words + 2

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers."""
        return asdict(self) | {"scales": [asdict(scale) for scale in self.scales]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """Read the output of `to_dict`; an unknown key is refused with a suggestion."""
        return cls(**settings_with_scales(cls, values, "a BERT"))


class Bert(nn.Module):
    """Two spans of words to the scores of words at every place, and to those of *does not follow* and *follows*.

    A token is the sum of its embedding, its place's and its segment's, the first of which is the output's too. The
    answer about both spans is read off the first place, as BERT's pooler does.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config, d = config, config.width
        self.embedding = nn.Embedding(config.words + 3, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.segment = nn.Embedding(2, d) if config.segments else None
        if self.segment is not None:
            nn.init.normal_(self.segment.weight, std=0.5)
        self.register_buffer("places", sinusoids(config.encoder.context, d), persistent=False)
        blocks = (EncoderBlock(config.encoder) for _ in range(config.blocks))
        self.blocks = cast(Sequence[EncoderBlock], nn.ModuleList(blocks))
        self.norm = nn.LayerNorm(d)
        self.pooled = nn.Linear(d, d)
        self.following = nn.Linear(d, 2)

    def join_spans(self, first: First, second: Second) -> tuple[Tokens, Tokens]:
        """Join two spans into one sequence of tokens, and their segments.

        Tokens are begin, first, separation, second, separation, (B, T); the segment of each is 0 or 1.
        """
        if max(first.shape[1], second.shape[1]) > self.config.span:
            raise ValueError(
                f"a span has {self.config.span} words at most, got {first.shape[1]} and {second.shape[1]}: cut them"
            )
        begin, separation = (
            first.new_full((len(first), 1), token) for token in (self.config.begin, self.config.separation)
        )
        tokens = torch.cat([begin, first, separation, second, separation], 1)
        segments = torch.zeros_like(tokens)
        segments[:, first.shape[1] + 2 :] = 1
        return tokens, segments

    def forward(
        self, tokens: Tokens, segments: Tokens
    ) -> tuple[Float[Tensor, "batch tokens vocabulary"], Float[Tensor, "batch 2"]]:
        """Tokens and segments (B, T) of `join_spans` -> logits of words (B, T, V) and of following (B, 2)."""
        x = self.embedding(tokens) * sqrt(self.config.width) + cast(Tensor, self.places)[: tokens.shape[1]]
        if self.segment is not None:
            x = x + self.segment(segments)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        words = F.linear(x, self.embedding.weight[: self.config.words])
        return words, self.following(self.pooled(x[:, 0]).tanh())
