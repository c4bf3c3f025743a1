"""Sequence to sequence: the encoder-decoder Transformer (Vaswani et al. 2017), and the recurrent network whose decoder
looks at the source by additive (Bahdanau et al. 2015) or dot-product attention (Luong et al. 2015).
"""

from dataclasses import dataclass
from math import sqrt
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from diptych_studies.mixers.transformer import DecoderLayer, EncoderLayer, causal_mask, sinusoids

KINDS = ("transformer", "additive", "dot")
PAD, BEGIN, END = 0, 1, 2
FIRST = 3  # the token of the first word

Source = Int[Tensor, "batch source"]
Target = Int[Tensor, "batch target"]
Memory = Float[Tensor, "batch source d_memory"]
Logits = Float[Tensor, "batch target tokens"]
Alignment = Float[Tensor, "batch target source"]


@dataclass(frozen=True)
class TranslationConfig:
    """The shape of a `Translator`.

    `kind` is *transformer*, or a recurrent network with *additive* or *dot* attention. `words` are those of source and
    target together, without `PAD`, `BEGIN` and `END`; `longest` is the most tokens of either with its `END`. `width`
    are the channels of a token. `blocks`, `heads` and `expansion` are a Transformer's.
    """

    kind: str = "transformer"
    words: int = 10
    longest: int = 9
    width: int = 32
    blocks: int = 2
    heads: int = 4
    expansion: float = 2.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if min(self.words, self.longest, self.width, self.blocks, self.heads) < 1 or self.expansion <= 0:
            raise ValueError(f"words, longest, width, blocks, heads and expansion must be positive, got {self}")
        if self.width % 2 or self.width % self.heads:
            raise ValueError(f"width must be even and a multiple of {self.heads} heads, got {self.width}")

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return FIRST + self.words

    def build(self) -> "Translator":
        """The network, with random weights."""
        return Recurrent(self) if self.kind != "transformer" else EncoderDecoder(self)


class Translator(nn.Module):
    """A network that writes a target while it looks at a source; sequences end with `END` and are filled up with `PAD`.

    `forward` is teacher forcing: the logits of every token of the target, each from the *true* tokens before it.
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.tokens, config.width, padding_idx=PAD)

    def forward(self, source: Source, target: Target) -> Logits:
        """Source (B, S) and target (B, T) -> logits (B, T, tokens). Raises `ValueError` for sequences too long."""
        begin = target.new_full((len(target), 1), BEGIN)
        return self.decode(self.encode(source), source == PAD, torch.cat([begin, target[:, :-1]], 1))[0]

    def alignment(self, source: Source, target: Target) -> Alignment:
        """The attention to each token of the source while each of the target is written: (B, T, S), rows that sum to
        one.
        """
        begin = target.new_full((len(target), 1), BEGIN)
        return self.decode(self.encode(source), source == PAD, torch.cat([begin, target[:, :-1]], 1))[1]

    def encode(self, source: Source) -> Memory:
        """The source (B, S) as the decoder looks at it: (B, S, d_memory)."""
        raise NotImplementedError

    def decode(self, memory: Memory, padding: Bool[Tensor, "batch source"], prefix: Target) -> tuple[Logits, Alignment]:
        """Logits (B, T, tokens) of the token after each of a prefix (B, T) that starts with `BEGIN`, from the tokens up
        to there, and the alignment (B, T, S); `padding` is True where the memory holds no token.
        """
        raise NotImplementedError

    def _require_length(self, what: str, tokens: Tensor) -> None:
        if tokens.dim() != 2 or not 1 <= tokens.shape[1] <= self.config.longest:
            raise ValueError(
                f"the {what} must be (B, T) with T from 1 to the longest of {self.config.longest} tokens, "
                f"got {tuple(tokens.shape)}"
            )


class EncoderDecoder(Translator):
    """The Transformer: encoder layers over the source, and decoder layers that see the target up to the present token
    and the whole of the source. Embeddings are those of the output too (section 3.4); norms come before the sublayers.
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.register_buffer("places", sinusoids(config.longest, config.width), persistent=False)
        shape = (config.width, config.heads, round(config.expansion * config.width))
        self.encoder = nn.ModuleList(EncoderLayer(*shape, pre_norm=True) for _ in range(config.blocks))
        self.decoder = nn.ModuleList(DecoderLayer(*shape, pre_norm=True) for _ in range(config.blocks))
        self.read, self.written = nn.LayerNorm(config.width), nn.LayerNorm(config.width)

    def encode(self, source: Source) -> Memory:
        """See `Translator.encode`."""
        self._require_length("source", source)
        x = self._embed_tokens(source)
        for layer in self.encoder:
            x = layer(x, padding=source == PAD)
        return self.read(x)

    def decode(self, memory: Memory, padding: Bool[Tensor, "batch source"], prefix: Target) -> tuple[Logits, Alignment]:
        """See `Translator.decode`; the alignment is the mean over the heads of the last layer."""
        self._require_length("target", prefix)
        x, mask = self._embed_tokens(prefix), causal_mask(prefix.shape[1]).to(memory)
        weights = memory.new_zeros(())
        for layer in self.decoder:
            layer = cast(DecoderLayer, layer)
            weights = layer.cross_attention_weights(x, memory, mask=mask, memory_padding=padding)
            x = layer(x, memory, mask=mask, memory_padding=padding)
        return F.linear(self.written(x), self.embedding.weight), weights.mean(1)

    def _embed_tokens(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * sqrt(self.config.width) + cast(Tensor, self.places)[: tokens.shape[1]]


class Recurrent(Translator):
    """A bidirectional GRU reads; another writes: s_t = GRU(s_(t-1), [word, c_t]), c_t = sum_j a_tj h_j with a_t the
    softmax over the source of e_tj, which is v . tanh(W s_(t-1) + U h_j) (*additive*) or (W s_(t-1)) . h_j / sqrt(d)
    (*dot*).
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        d = config.width
        self.reader = nn.GRU(d, d // 2, batch_first=True, bidirectional=True)
        self.begin = nn.Linear(d, d)
        self.writer = nn.GRUCell(2 * d, d)
        self.W = nn.Linear(d, d, bias=False)
        additive = config.kind == "additive"
        self.U = nn.Linear(d, d, bias=False) if additive else None
        self.v = nn.Linear(d, 1, bias=False) if additive else None
        self.output = nn.Linear(2 * d, config.tokens)

    def encode(self, source: Source) -> Memory:
        """See `Translator.encode`; where there is no token the memory is zero."""
        self._require_length("source", source)
        lengths = (source != PAD).sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.reader(packed)[0], batch_first=True, total_length=source.shape[1])[0]

    def decode(self, memory: Memory, padding: Bool[Tensor, "batch source"], prefix: Target) -> tuple[Logits, Alignment]:
        """See `Translator.decode`."""
        self._require_length("target", prefix)
        state = self.begin(memory.sum(1) / (~padding).sum(1, keepdim=True).clamp(min=1)).tanh()
        known, words = memory if self.U is None else self.U(memory), self.embedding(prefix)
        logits, seen = [], []
        for word in words.unbind(1):
            scores = self._score_source(state, known).masked_fill(padding, -torch.inf)
            weights = scores.softmax(-1)
            context = (weights[:, None] @ memory)[:, 0]
            state = self.writer(torch.cat([word, context], -1), state)
            logits.append(self.output(torch.cat([state, context], -1)))
            seen.append(weights)
        return torch.stack(logits, 1), torch.stack(seen, 1)

    def _score_source(self, state: Tensor, known: Tensor) -> Float[Tensor, "batch source"]:
        asked = self.W(state)[:, None]
        if self.v is None:
            return (known @ asked.transpose(1, 2))[..., 0] * self.config.width**-0.5
        return self.v((asked + known).tanh())[..., 0]
