"""The pair network: two panels, seen at once (section 6.1 of the MSAC paper)."""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.config import PairConfig
from diptych_model.controls import LateInteraction, Siamese
from diptych_model.correspondence import Correspondence, laid_out, resized_position
from diptych_model.embedding import Embedding
from diptych_model.mixers import Attentive, Place
from diptych_model.panels import split_panels, to_sequence

Pictures = Float[Tensor, "batch 3 size size"]
Tokens = Float[Tensor, "batch rows cols d"]
Augmented = Float[Tensor, "batch rows cols width"]
Embeddings = Float[Tensor, "batch e"]
Logits = Float[Tensor, "batch *questions"]
Stacked = Float[Tensor, "stacked rows cols d"]
Attention = Float[Tensor, "batch tokens_a tokens_b"]

WHITE = 255  # of a pixel that is a token
GREY = 0.5  # of a picture: what the encoders' normalisation takes to nearly nothing


class PanelPart(nn.Module):
    """Pixels of one panel to tokens and an embedding; its windows never see the other panel.

    With `seam = "pixels"` the tokens are the pixels themselves, and `joint_tokens` makes the trunk's input of two.
    """

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        d, grid = config.encoder.width, config.grid
        self.config = config
        # With the seam open in pixels t = [x, z] is made before the stem, and the segments are of the pixels.
        self.segments = Segments(config.segment if config.segments_pixels else "none", 3, config.pixels, neutral=GREY)
        self.encoder = config.encoder.build(self.segments.width)
        if config.correspondence and config.relation != "siamese":
            self.tokens = nn.Linear(d, config.width, bias=False)
        elif config.relation != "siamese":
            self.tokens = nn.Sequential(nn.Linear(d, config.width), nn.LayerNorm(config.width))
            self.position = nn.Parameter(torch.randn(grid, grid, config.width) * 0.02)
        self.embedding = Embedding(
            config.encoder.description_width, config.embedding, parts=config.parts, bank=config.bank
        )

    def forward(self, pictures: Pictures) -> tuple[Tokens, Embeddings]:
        """Pictures (B, 3, S, S) in [0, 1] -> tokens (B, N, M, d) and unit embeddings (B, e).

        S is the configuration's `pixels` or any other number of whole tokens: training begins on small panels.
        """
        self._check_size(pictures)
        features, pooled = self.encode(pictures)
        embeddings = self.embedding(pooled)
        if self.config.seam == "pixels":
            return pixels_as_tokens(pictures), embeddings
        if self.config.relation == "siamese":  # it compares nothing else
            return embeddings[:, None, None], embeddings
        return self._make_tokens(features, embeddings), embeddings

    def encode(self, pictures: Pictures) -> tuple[Tokens, Float[Tensor, "batch pooled"]]:
        """The encoder's features and description of pictures (B, 3, S, S) that are in no pair."""
        if self.segments.width > pictures.shape[1]:
            pictures = _channels_first(self.segments.augment_alone(_channels_last(pictures)))
        return self.encoder(pictures)

    def content_tokens(self, tokens: Tokens) -> Float[Tensor, "batch rows cols seen"]:
        """The tokens without their place in the panel: what is seen, wherever it is."""
        if self.config.correspondence:
            return tokens[..., : self.config.width]
        return tokens - self._token_position(tokens.shape[1])

    def joint_tokens(self, pictures_a: Pictures, pictures_b: Pictures) -> tuple[Tokens, Tokens]:
        """The tokens of both panels from t = [x, z] in pixels, segments and all: every window crosses the seam."""
        for pictures in (pictures_a, pictures_b):
            self._check_size(pictures)
        if pictures_a.shape != pictures_b.shape:
            raise ValueError(
                f"both panels must be alike, got pictures {tuple(pictures_a.shape)} and {tuple(pictures_b.shape)}"
            )
        t = torch.cat(self.segments(_channels_last(pictures_a), _channels_last(pictures_b)), 2)
        features, pooled = self.encoder(_channels_first(t), panels=2)
        tokens = self._make_tokens(split_panels(features, 2), self.embedding(pooled)).unflatten(0, (-1, 2))
        return tokens[:, 0], tokens[:, 1]

    def _make_tokens(self, features: Float[Tensor, "batch rows cols width"], embeddings: Embeddings) -> Tokens:
        """The tokens that the relation is given, made of features and embeddings."""
        tokens = self.tokens(features)
        if not self.config.correspondence:
            return tokens + self._token_position(features.shape[1])
        if not self.config.carries_embedding:
            return tokens
        known = [embeddings, self.embedding.typicality(embeddings)] if self.config.bank else [embeddings]
        return laid_out(tokens, torch.cat(known, -1))

    def _check_size(self, pictures: Tensor) -> None:
        size, divisor = pictures.shape[-1], self.config.encoder.divisor
        if pictures.shape[1:] != (3, size, size) or not size or size % divisor:
            raise ValueError(
                f"panels must be (B, 3, S, S) with S = {self.config.pixels} or another multiple of {divisor}, "
                f"got {tuple(pictures.shape)}"
            )

    def _token_position(self, grid: int) -> Tensor:
        """The learned place of each token in its panel; another grid covers the same panel with other tokens."""
        return resized_position(self.position, grid)


class Block(nn.Module):
    """x + mixer(norm x), then x + feed-forward(norm x)."""

    def __init__(self, d: int, config: PairConfig) -> None:
        super().__init__()
        hidden = round(d * config.expansion)
        grid = config.grid // config.merge
        place = Place(
            d,
            d,
            grid,
            grid,
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
        self.correspondence = Correspondence(config) if config.correspondence else None
        segment = "none" if config.seam == "pixels" else config.segment
        self.segments = Segments(segment, config.trunk_width, config.grid // config.merge)
        d = self.segments.width
        blocks = (Block(d, config) for _ in range(config.blocks))
        self.blocks = cast(Sequence[Block], nn.ModuleList(blocks))
        self.norm = nn.LayerNorm(d)
        known = self.correspondence.known if self.correspondence else 0
        self.head = nn.Sequential(nn.Linear(2 * d + known, d), nn.GELU(), nn.Linear(d, len(config.questions)))
        if config.correspondence:
            # What the trunk adds to what is known begins at nothing.
            nn.init.zeros_(cast(nn.Linear, self.head[-1]).weight)
            nn.init.zeros_(cast(nn.Linear, self.head[-1]).bias)

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """Tokens (B, N, M, d) twice -> logits (B,) of one question or (B, 2) of *copy* and *thing*."""
        return self.question_logits(self.raw_outputs(tokens_a, tokens_b))

    def raw_outputs(self, tokens_a: Tokens, tokens_b: Tokens) -> Float[Tensor, "batch outputs"]:
        """The outputs that `question_logits` is made of: tokens (B, N, M, d) twice -> (B, questions)."""
        if self.correspondence is None:
            return self.head(self.pool_trunk(tokens_a, tokens_b))
        prior, added, _ = self.logit_summands(tokens_a, tokens_b)
        return prior + added

    def logit_summands(self, tokens_a: Tokens, tokens_b: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """The summands of `raw_outputs` in a network with `correspondence`.

        They are the prior (B, outputs) and the output of the trunk (B, outputs); third comes the input of the prior's
        linear map, (B, known).
        """
        if self.correspondence is None:
            raise ValueError("only the logits of a pair part with `correspondence` have a prior")
        merged_a, merged_b, known = self.correspondence(tokens_a, tokens_b)
        seen = torch.cat([self.pool_trunk(merged_a, merged_b), known], -1)
        return self.correspondence.prior(known), self.head(seen), known

    def embedding_part(self, question: int) -> int:
        """The place of the embedding's part that answers a question; its cosine has the same place in `known`."""
        return min(question, self.config.parts - 1)

    def pool_trunk(self, tokens_a: Tokens, tokens_b: Tokens) -> Float[Tensor, "batch seen"]:
        """The pooled output of the trunk over both panels: (B, 2 d)."""
        x = self._stack_pair(tokens_a, tokens_b)
        for block in self.blocks:
            x = block(x)
        x = to_sequence(self.norm(x), 2)
        return torch.cat([x.mean(1), x.amax(1)], -1)

    def question_logits(self, logits: Float[Tensor, "batch outputs"]) -> Logits:
        """The logits of the questions: every copy shows the same thing, so the odds of *thing* are those of either."""
        if len(self.config.questions) == 1:
            return logits.squeeze(-1)
        copy, apart_from_copies = logits.unbind(-1)
        # 1 - (1 - p)(1 - q) as a logit: log(e^x + e^y + e^(x + y)). In one reduction: ONNX Runtime takes logarithms
        # several at a time and those left over one by one, with other bits, and a reduction goes row by row.
        either = torch.stack([copy, apart_from_copies, copy + apart_from_copies], -1).logsumexp(-1)
        return torch.stack([copy, either], -1)

    @property
    def has_attention(self) -> bool:
        """True if `attention` is available. Not every mixer attends to single positions of the other panel."""
        return self.correspondence is not None or all(isinstance(block.mixer, Attentive) for block in self.blocks)

    def attention(self, tokens_a: Tokens, tokens_b: Tokens) -> Attention:
        """Which patch looks at which across the seam: tokens (B, N, M, d) twice -> (B, T, T), T = N M.

        Rows are the patches of panel a, columns those of b, both row by row. An entry is the mean over blocks and
        heads of A[a -> b] and of A[b -> a] transposed, so swapping the panels transposes the map of a network that
        names no first panel. Nothing is normalised again: what a patch looks at in its own panel is missing, and the
        sum of all entries over T is the share of the attention that crosses the seam. With `correspondence` it is that
        of `Correspondence.attention`, which is finer. Raises `ValueError` for a mixer that has no such attention.
        """
        if self.correspondence is not None:
            return self.correspondence.attention(tokens_a, tokens_b)
        maps = []
        x = self._stack_pair(tokens_a, tokens_b)
        for block in self.blocks:
            if not isinstance(block.mixer, Attentive):
                raise ValueError(
                    f"the mixer {self.config.mixer.kind!r} has no attention from patch to patch across the seam to show"
                )
            maps.append(block.mixer.seam_attention(block.norm(x)).mean(1))
            x = block(x)
        seen = torch.stack(maps).mean(0).unflatten(0, (-1, 2))
        return (seen[:, 0] + seen[:, 1].transpose(1, 2)) / 2

    def _stack_pair(self, tokens_a: Tokens, tokens_b: Tokens) -> Float[Tensor, "stacked rows cols width"]:
        """Both panels with their segments, stacked in the batch. Raises `ValueError` unless they are alike."""
        if tokens_a.shape != tokens_b.shape or tokens_a.dim() != 4:
            raise ValueError(
                f"both panels must be (B, N, M, d) alike, got {tuple(tokens_a.shape)} and {tuple(tokens_b.shape)}"
            )
        x_a, x_b = self.segments(tokens_a, tokens_b)
        return torch.stack([x_a, x_b], 1).flatten(0, 1)


class Segments(nn.Module):
    """x_seg and z_seg, *added* to two panels or *concatenated* as channels; nothing to add where the segment is
    *relative* or *none*. They tell the network the two panels apart (section 6.1).

    The panels are what the network concatenates: tokens, or with `seam = "pixels"` the pictures, before the stem.
    `d` are their channels, `grid` the positions along a side that the segments are made for; on a panel of another
    size they are resized. `width` is the number of channels after the augmentation. Concatenated segments begin about
    `neutral`, the value that says nothing.
    """

    CONCATENATED = 8

    def __init__(self, segment: str, d: int, grid: int, *, neutral: float = 0.0) -> None:
        super().__init__()
        self.mode, self.neutral = segment, neutral
        extra = self.CONCATENATED if segment == "concatenated" else 0
        self.width = d + extra
        if segment in ("added", "concatenated"):
            begin = neutral if extra else 0.0
            self.x_seg = nn.Parameter(begin + torch.randn(grid, grid, extra or d) * 0.02)
            self.z_seg = nn.Parameter(begin + torch.randn(grid, grid, extra or d) * 0.02)

    def forward(self, x: Tokens, z: Tokens) -> tuple[Augmented, Augmented]:
        """Panels (B, N, N, d) twice -> the same with the segments in them, (B, N, N, width)."""
        if self.mode not in ("added", "concatenated"):
            return x, z
        x_seg, z_seg = (resized_position(segment, x.shape[1]) for segment in (self.x_seg, self.z_seg))
        if self.mode == "added":
            return x + x_seg, z + z_seg
        return _concatenate_segment(x, x_seg), _concatenate_segment(z, z_seg)

    def augment_alone(self, x: Tokens) -> Augmented:
        """A panel that is in no pair with a neutral segment: (B, N, N, d) -> (B, N, N, width)."""
        return _concatenate_segment(x, x.new_tensor(self.neutral)) if self.mode == "concatenated" else x


def _concatenate_segment(x: Tokens, segment: Tensor) -> Augmented:
    return torch.cat([x, segment.to(x.dtype).expand(*x.shape[:3], Segments.CONCATENATED)], -1)


class PairNetwork(nn.Module):
    """Scores how alike two pictures are by looking at t = [x, z].

    With `correspondence` each logit begins with a line through the cosine of the embeddings and the best matches of
    tokens (`Correspondence`); without, there is no distance between two encodings anywhere.

    The panel part is computed once a picture and may be stored; the pair part runs once a pair:
    `network(a, b)` equals `network.relate(network.encode(a)[0], network.encode(b)[0])`. With the seam open in pixels
    the whole network runs once a pair, in both orders, and the logits are those of the mean of the two.
    """

    def __init__(self, config: PairConfig | None = None) -> None:
        super().__init__()
        self.config = config or PairConfig()
        self.panel = PanelPart(self.config)
        self.pair = _build_relation(self.config)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.panel.embedding.weight.device

    def encode(self, pictures: Pictures) -> tuple[Tokens, Embeddings]:
        """Pictures (B, 3, S, S) in [0, 1] -> tokens (B, N, M, d) and unit embeddings (B, e)."""
        return self.panel(pictures)

    def relate(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """Tokens of two panels, each (B, N, M, d) -> logits (B,), of two questions (B, 2); larger is more alike."""
        if self.config.seam == "pixels":
            return self(tokens_as_pixels(tokens_a), tokens_as_pixels(tokens_b))
        return self.pair(tokens_a, tokens_b)

    def logit_summands(self, tokens_a: Tokens, tokens_b: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """The summands of the logits of a network with `correspondence`: see `PairPart.logit_summands`."""
        pair = cast(PairPart, self.pair)
        if self.config.seam != "pixels":
            return pair.logit_summands(tokens_a, tokens_b)
        orders = self._tokens_in_both_orders(tokens_as_pixels(tokens_a), tokens_as_pixels(tokens_b))
        prior, added, known = (
            (x + y) / 2 for x, y in zip(*(pair.logit_summands(*order) for order in orders), strict=True)
        )
        return prior, added, known

    @property
    def relation_module(self) -> nn.Module:
        """The module whose weights `relate` uses."""
        return self if self.config.seam == "pixels" else self.pair

    @property
    def has_attention(self) -> bool:
        """True if `attention` is available."""
        return isinstance(self.pair, PairPart) and self.pair.has_attention

    def attention(self, tokens_a: Tokens, tokens_b: Tokens) -> Attention:
        """Which patch of panel a looks at which of panel b, and the reverse: see `PairPart.attention`."""
        if not isinstance(self.pair, PairPart):
            raise ValueError(f"the relation {self.config.relation!r} has no attention across the seam to show")
        if self.config.seam != "pixels":
            return self.pair.attention(tokens_a, tokens_b)
        orders = self._tokens_in_both_orders(tokens_as_pixels(tokens_a), tokens_as_pixels(tokens_b))
        one, other = (self.pair.attention(*order) for order in orders)
        return (one + other.transpose(1, 2)) / 2

    def forward(self, pictures_a: Pictures, pictures_b: Pictures) -> Logits:
        """Two batches of pictures (B, 3, S, S) in [0, 1] -> logits (B,), of two questions (B, 2)."""
        if self.config.seam != "pixels":
            return self.relate(self.encode(pictures_a)[0], self.encode(pictures_b)[0])
        pair = cast(PairPart, self.pair)
        one, other = (pair.raw_outputs(*order) for order in self._tokens_in_both_orders(pictures_a, pictures_b))
        return pair.question_logits((one + other) / 2)

    def _tokens_in_both_orders(self, pictures_a: Pictures, pictures_b: Pictures) -> Iterator[tuple[Tokens, Tokens]]:
        """The tokens of t = [a, b], and then of t = [b, a].

        One order after the other: in one batch the place of a row may change its last bit, and the sum with it.
        """
        yield self.panel.joint_tokens(pictures_a, pictures_b)
        yield self.panel.joint_tokens(pictures_b, pictures_a)


def pixels_as_tokens(pictures: Pictures) -> Tokens:
    """Pictures (B, 3, S, S) in [0, 1] as tokens (B, S, S, 3) from 0 to 255, which half precision keeps exactly."""
    return _channels_last(pictures) * WHITE


def tokens_as_pixels(tokens: Tokens) -> Pictures:
    """The inverse of `pixels_as_tokens`. Raises `ValueError` for tokens that are no pixels."""
    if tokens.dim() != 4 or tokens.shape[-1] != 3:
        raise ValueError(
            f"with seam = 'pixels' the tokens of a picture are its pixels (B, S, S, 3), 0 to {WHITE}, got "
            f"{tuple(tokens.shape)}"
        )
    return _channels_first(tokens) / WHITE


def _channels_last(pictures: Tensor) -> Tensor:
    return pictures.permute(0, 2, 3, 1)


def _channels_first(panels: Tensor) -> Tensor:
    return panels.permute(0, 3, 1, 2)


def _build_relation(config: PairConfig) -> PairPart | LateInteraction | Siamese:
    match config.relation:
        case "late":
            return LateInteraction(len(config.questions))
        case "siamese":
            return Siamese(len(config.questions), config.parts)
        case _:
            return PairPart(config)
