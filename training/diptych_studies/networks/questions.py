"""Questions about pictures: a question's words attend to the regions of an image, and their answer is one of a few.

The cross-attention of Nikhil's part 2: relevance of every region by dot products or additively, alpha = softmax
O(f(v), q), and v' = alpha^T g(v).
"""

from dataclasses import dataclass
from math import sqrt

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from diptych_studies.mixers.transformer import EncoderLayer, sinusoids

RELEVANCES = ("dot", "additive")
PAD = 0  # the token that fills questions up

Tokens = Float[Tensor, "batch tokens d"]
Regions = Float[Tensor, "batch regions d_v"]
Relevance = Float[Tensor, "batch heads tokens regions"]
Questions = Int[Tensor, "batch tokens"]
Pictures = Float[Tensor, "batch 3 size size"]


@dataclass(frozen=True)
class QuestionConfig:
    """The shape of a `QuestionNetwork`.

    `relevance` is *dot* or *additive*, and *blind* a network that is shown no picture, only the question. `words` and
    `answers` are the sizes of the vocabularies, the filling of questions among the words; `longest` the most words of a
    question. `pixels` is the side of a picture and `patch`, a power of two, that of a region. `width` are the channels,
    `blocks` the times that the words look at the picture.
    """

    relevance: str = "dot"
    words: int = 22
    answers: int = 14
    longest: int = 10
    pixels: int = 32
    patch: int = 4
    width: int = 32
    blocks: int = 2
    heads: int = 4

    def __post_init__(self) -> None:
        if self.relevance not in (*RELEVANCES, "blind"):
            raise ValueError(f"relevance must be one of {', '.join(RELEVANCES)} or blind, got {self.relevance!r}")
        sizes = (self.words, self.answers, self.longest, self.pixels, self.width, self.blocks, self.heads)
        if min(sizes) < 1:
            raise ValueError(f"words, answers, longest, pixels, width, blocks and heads must be positive, got {self}")
        if self.patch < 2 or self.patch & (self.patch - 1) or self.pixels % self.patch:
            raise ValueError(f"patch must be a power of two from 2 that divides {self.pixels} pixels, got {self.patch}")
        if self.width % 2 or self.width % self.heads:
            raise ValueError(f"width must be even and a multiple of {self.heads} heads, got {self.width}")

    @property
    def grid(self) -> int:
        """Regions along a side."""
        return self.pixels // self.patch


class RegionAttention(nn.Module):
    """alpha = softmax O(f(v), q) over the regions v, and v' = alpha^T g(v), f and g linear maps of the regions.

    O is *dot*, f . q / sqrt(d_k), or *additive*, w . tanh(f + q) (Bahdanau et al. 2015); q is a linear map of what
    asks, so that there may be several heads, and a linear map joins them.
    """

    def __init__(self, d: int, d_v: int, heads: int, relevance: str) -> None:
        super().__init__()
        if relevance not in RELEVANCES:
            raise ValueError(f"relevance must be one of {', '.join(RELEVANCES)}, got {relevance!r}")
        if heads < 1 or d % heads:
            raise ValueError(f"d must be a multiple of the heads, got d = {d} and {heads} heads")
        self.heads = heads
        self.W_q, self.W_f, self.W_g = nn.Linear(d, d), nn.Linear(d_v, d), nn.Linear(d_v, d)
        self.w = nn.Parameter(torch.randn(heads, d // heads) / sqrt(d // heads)) if relevance == "additive" else None
        self.out = nn.Linear(d, d)

    def forward(self, x: Tokens, regions: Regions) -> tuple[Tokens, Relevance]:
        """(B, T, d) and regions (B, R, d_v) -> v' of every token, (B, T, d), and alpha, (B, heads, T, R)."""
        q, f, g = (self._by_head(made) for made in (self.W_q(x), self.W_f(regions), self.W_g(regions)))
        alpha = self._score_regions(q, f).softmax(-1)
        return self.out((alpha @ g).transpose(1, 2).flatten(2)), alpha

    def _score_regions(self, q: Tensor, f: Tensor) -> Relevance:
        if self.w is None:
            return q @ f.transpose(2, 3) / sqrt(q.shape[-1])
        return ((q[:, :, :, None] + f[:, :, None]).tanh() * self.w[:, None, None]).sum(-1)

    def _by_head(self, x: Tensor) -> Float[Tensor, "batch heads tokens channels"]:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class QuestionNetwork(nn.Module):
    """Answers questions about pictures.

    Convolutions make a vector of every region, with its place. The words of the question look at one another (a layer
    of the Transformer's encoder), then at the regions, `blocks` times; the mean word is mapped to the answers. A
    *blind* network has everything but the regions.
    """

    def __init__(self, config: QuestionConfig) -> None:
        super().__init__()
        d = config.width
        self.config = config
        self.embedding = nn.Embedding(config.words, d, padding_idx=PAD)
        self.register_buffer("order", sinusoids(config.longest, d), persistent=False)
        self.readers = nn.ModuleList(EncoderLayer(d, config.heads, 2 * d, pre_norm=True) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, config.answers))
        if config.relevance != "blind":
            self.stem = _build_stem(d, config.patch)
            self.place = nn.Parameter(torch.randn(config.grid**2, d) * 0.1)
            self.seen = nn.LayerNorm(d)
            self.asking = nn.ModuleList(nn.LayerNorm(d) for _ in range(config.blocks))
            self.looks = nn.ModuleList(
                RegionAttention(d, d, config.heads, config.relevance) for _ in range(config.blocks)
            )

    def forward(self, pictures: Pictures, questions: Questions) -> Float[Tensor, "batch answers"]:
        """Pictures (B, 3, S, S) from -1 to 1 and questions (B, T) -> the logits of the answers (B, answers)."""
        return self._answer_questions(pictures, questions)[0]

    def relevance(self, pictures: Pictures, questions: Questions) -> Float[Tensor, "batch blocks tokens rows cols"]:
        """The relevance of every region to every word, the mean of the heads, in every block: (B, blocks, T, N, M)."""
        maps = self._answer_questions(pictures, questions)[1]
        if not maps:
            raise ValueError("a blind network looks at no picture: build it with relevance = 'dot' or 'additive'")
        return torch.stack([one.mean(1) for one in maps], 1).unflatten(-1, (self.config.grid, self.config.grid))

    def regions(self, pictures: Pictures) -> Regions:
        """The regions of pictures (B, 3, S, S), (B, R, d): what is seen there, and where."""
        size = self.config.pixels
        if pictures.shape[1:] != (3, size, size):
            raise ValueError(f"pictures must be (B, 3, {size}, {size}), got {tuple(pictures.shape)}")
        return self.seen(self.stem(pictures).flatten(2).transpose(1, 2) + self.place)

    def _answer_questions(self, pictures: Tensor, questions: Tensor) -> tuple[Tensor, list[Tensor]]:
        if questions.dim() != 2 or not 1 <= questions.shape[1] <= self.config.longest:
            raise ValueError(
                f"questions must be (B, T) with T from 1 to {self.config.longest} words, got {tuple(questions.shape)}"
            )
        padding: Bool[Tensor, "batch tokens"] = questions == PAD
        x = self.embedding(questions) + self.get_buffer("order")[: questions.shape[1]]
        regions = None if self.config.relevance == "blind" else self.regions(pictures)
        maps = []
        for number, reader in enumerate(self.readers):
            x = reader(x, padding=padding)
            if regions is not None:
                found, alpha = self.looks[number](self.asking[number](x), regions)
                x = x + found
                maps.append(alpha)
        words = (~padding)[..., None].to(x.dtype)
        return self.head((self.norm(x) * words).sum(1) / words.sum(1).clamp(min=1)), maps


def _build_stem(d: int, patch: int) -> nn.Sequential:
    """3x3 convolutions, one of stride 2 for every halving of the patch, and one more that sees across regions."""
    halvings = patch.bit_length() - 1
    widths = [3, *(max(8, d // 2 ** (halvings - step)) for step in range(1, halvings)), d]
    layers: list[nn.Module] = []
    for number in range(halvings):
        layers += [nn.Conv2d(widths[number], widths[number + 1], 3, stride=2, padding=1), nn.GELU()]
    return nn.Sequential(*layers, nn.Conv2d(d, d, 3, padding=1))


def question_loss(network: QuestionNetwork, pictures: Tensor, questions: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy of the right answers (B,), nats a question."""
    return F.cross_entropy(network(pictures, questions), answers)
