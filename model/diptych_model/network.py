"""The pair network: two panels, seen at once (section 6.1 of the MSAC paper)."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.config import PairConfig
from diptych_model.controls import LateInteraction, Siamese
from diptych_model.mixers import Attentive, Place
from diptych_model.panels import apart, sequence
from diptych_model.segments import Segments
from diptych_model.stem import Stem

Pictures = Float[Tensor, "batch 3 size size"]
Tokens = Float[Tensor, "batch rows cols d"]
Embeddings = Float[Tensor, "batch e"]
Logits = Float[Tensor, " batch"]
Stacked = Float[Tensor, "stacked rows cols d"]
Attention = Float[Tensor, "batch tokens_a tokens_b"]


class PanelPart(nn.Module):
    """Pixels of one panel to tokens and an embedding; its windows never see the other panel."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        d, grid = config.stem_widths[-1], config.grid
        self.pixels, self.reduction = config.pixels, config.reduction
        self.siamese = config.relation == "siamese"
        self.stem = Stem(config.stem_widths, config.stem_depths)
        if not self.siamese:
            self.tokens = nn.Sequential(nn.Linear(d, config.width), nn.LayerNorm(config.width))
            self.position = nn.Parameter(torch.randn(grid, grid, config.width) * 0.02)
        self.embedding = nn.Linear(2 * d, config.embedding)

    def forward(self, pictures: Pictures) -> tuple[Tokens, Embeddings]:
        """Pictures (B, 3, S, S) in [0, 1] -> tokens (B, N, M, d) and unit embeddings (B, e).

        S is the configuration's `pixels`, or smaller by whole tokens: training begins on small panels.
        """
        self._check(pictures)
        features = self.stem((pictures - 0.5) * 4).permute(0, 2, 3, 1)
        pooled = torch.cat([features.mean((1, 2)), features.amax((1, 2))], -1)
        embeddings = F.normalize(self.embedding(pooled), dim=-1)
        # The siamese twin compares nothing else.
        return embeddings[:, None, None] if self.siamese else self._tokens(features), embeddings

    def content(self, tokens: Tokens) -> Tokens:
        """Tokens less their place in the panel: what is seen, wherever it is."""
        return tokens - self._position(tokens.shape[1])

    def literal(self, pictures_a: Pictures, pictures_b: Pictures) -> tuple[Tokens, Tokens]:
        """The tokens of both panels from t = [x, z] in pixels: the stem's windows cross the seam."""
        for pictures in (pictures_a, pictures_b):
            self._check(pictures)
        t = torch.cat([pictures_a, pictures_b], -1)
        features = apart(self.stem((t - 0.5) * 4).permute(0, 2, 3, 1), 2)
        tokens = self._tokens(features).unflatten(0, (-1, 2))
        return tokens[:, 0], tokens[:, 1]

    def _tokens(self, features: Float[Tensor, "batch rows cols width"]) -> Tokens:
        return self.tokens(features) + self._position(features.shape[1])

    def _check(self, pictures: Tensor) -> None:
        size = pictures.shape[-1]
        if pictures.shape[1:] != (3, size, size) or size > self.pixels or size % self.reduction:
            raise ValueError(
                f"panels must be (B, 3, S, S) with S = {self.pixels} or a smaller multiple of {self.reduction}, "
                f"got {tuple(pictures.shape)}"
            )

    def _position(self, grid: int) -> Tensor:
        """The learned place of each token in its panel; a smaller grid covers the same panel with larger tokens."""
        if grid == len(self.position):
            return self.position
        return F.adaptive_avg_pool2d(self.position.permute(2, 0, 1), grid).permute(1, 2, 0)


class Block(nn.Module):
    """x + mixer(norm x), then x + feed-forward(norm x)."""

    def __init__(self, d: int, config: PairConfig) -> None:
        super().__init__()
        hidden = round(d * config.expansion)
        place = Place(
            d,
            d,
            config.grid,
            config.grid,
            panels=2,
            segments=config.segment == "relative",
            bias=config.bias,
            open_seam=config.seam != "closed",
        )
        self.norm = nn.LayerNorm(d)
        self.mixer = config.mixer.build(place)
        self.feed = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x: Stacked) -> Stacked:
        """(B * 2, N, M, d) -> the same shape."""
        x = x + self.mixer(self.norm(x))
        return x + self.feed(x)


class PairPart(nn.Module):
    """The trunk over the diptych and its head: tokens of two panels to one logit."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.config = config
        self.segments = Segments(config)
        d = self.segments.width
        blocks = (Block(d, config) for _ in range(config.blocks))
        self.blocks = cast(Sequence[Block], nn.ModuleList(blocks))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Sequential(nn.Linear(2 * d, d), nn.GELU(), nn.Linear(d, 1))

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """Tokens (B, N, M, d) twice -> logits (B,)."""
        x = self._stacked(tokens_a, tokens_b)
        for block in self.blocks:
            x = block(x)
        x = sequence(self.norm(x), 2)
        return self.head(torch.cat([x.mean(1), x.amax(1)], -1)).squeeze(-1)

    @property
    def attentive(self) -> bool:
        """Whether `attention` has an answer: not every mixer attends to single positions of the other panel."""
        return all(isinstance(block.mixer, Attentive) for block in self.blocks)

    def attention(self, tokens_a: Tokens, tokens_b: Tokens) -> Attention:
        """Which patch looks at which across the seam: tokens (B, N, M, d) twice -> (B, T, T), T = N M.

        Rows are the patches of panel a, columns those of b, both row by row. An entry is the mean over blocks and
        heads of A[a -> b] and of A[b -> a] transposed, so swapping the panels transposes the map of a network that
        names no first panel. Nothing is normalised again: what a patch looks at in its own panel is missing, and the
        sum of all entries over T is the share of the attention that crosses the seam. Raises `ValueError` for a mixer
        that has no such attention.
        """
        maps = []
        x = self._stacked(tokens_a, tokens_b)
        for block in self.blocks:
            if not isinstance(block.mixer, Attentive):
                raise ValueError(
                    f"the mixer {self.config.mixer.kind!r} has no attention from patch to patch across the seam to show"
                )
            maps.append(block.mixer.across(block.norm(x)).mean(1))
            x = block(x)
        seen = torch.stack(maps).mean(0).unflatten(0, (-1, 2))
        return (seen[:, 0] + seen[:, 1].transpose(1, 2)) / 2

    def _stacked(self, tokens_a: Tokens, tokens_b: Tokens) -> Float[Tensor, "stacked rows cols width"]:
        if tokens_a.shape != tokens_b.shape or tokens_a.dim() != 4:
            raise ValueError(
                f"both panels must be (B, N, M, d) alike, got {tuple(tokens_a.shape)} and {tuple(tokens_b.shape)}"
            )
        x_a, x_b = self.segments(tokens_a, tokens_b)
        return torch.stack([x_a, x_b], 1).flatten(0, 1)


class PairNetwork(nn.Module):
    """Scores how alike two pictures are by looking at t = [x, z]; no distance between two encodings anywhere.

    The panel part is computed once a picture and may be stored; the pair part runs once a pair:
    `network(a, b)` equals `network.relate(network.encode(a)[0], network.encode(b)[0])`. With the seam open in pixels
    only `forward` scores: what the panel part would say of one picture is not what it says of t.
    """

    def __init__(self, config: PairConfig | None = None) -> None:
        super().__init__()
        self.config = config or PairConfig()
        self.panel = PanelPart(self.config)
        self.pair = _relation(self.config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.panel.embedding.weight.device

    def encode(self, pictures: Pictures) -> tuple[Tokens, Embeddings]:
        """Pictures (B, 3, S, S) in [0, 1] -> tokens (B, N, M, d) and unit embeddings (B, e)."""
        return self.panel(pictures)

    def relate(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """Tokens of two panels, each (B, N, M, d) -> logits (B,); larger is more alike."""
        if self.config.seam == "pixels":
            raise ValueError(
                "with seam = 'pixels' a picture has no tokens of its own to relate: score the pictures themselves, "
                "network(pictures_a, pictures_b), or use seam = 'tokens' or 'closed'"
            )
        return self.pair(tokens_a, tokens_b)

    @property
    def attentive(self) -> bool:
        """Whether `attention` has an answer."""
        return isinstance(self.pair, PairPart) and self.pair.attentive

    def attention(self, tokens_a: Tokens, tokens_b: Tokens) -> Attention:
        """Which patch of panel a looks at which of panel b, and the reverse: see `PairPart.attention`."""
        if not isinstance(self.pair, PairPart):
            raise ValueError(f"the relation {self.config.relation!r} has no attention across the seam to show")
        return self.pair.attention(tokens_a, tokens_b)

    def forward(self, pictures_a: Pictures, pictures_b: Pictures) -> Logits:
        """Two batches of pictures (B, 3, S, S) in [0, 1] -> logits (B,)."""
        if self.config.seam == "pixels":
            return self.pair(*self.panel.literal(pictures_a, pictures_b))
        return self.relate(self.encode(pictures_a)[0], self.encode(pictures_b)[0])


def _relation(config: PairConfig) -> PairPart | LateInteraction | Siamese:
    match config.relation:
        case "late":
            return LateInteraction()
        case "siamese":
            return Siamese()
        case _:
            return PairPart(config)
