"""Scoring a table as it goes by: nothing is known of what is to come, and nothing is kept for a resumption."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from diptych.batch.parts.tokens import Stamp
from diptych.batch.tables.arrow import make_text_schema
from diptych.batch.tables.read import SIDES, kind_of, open_table, read_columns, read_schema
from diptych.batch.tables.scores import Scores
from diptych.batch.tables.write import make_writer
from diptych.batch.workers.encoder import CloserLooks, Encoder, pair_errors, score_pairs
from diptych.pictures.sources import Fetch, refuse_url
from diptych.scoring.scorer import Scorer

CHUNK = 256
CACHE_BYTES = 256 * 1024 * 1024

Tick = Callable[[int], object]


class PairScorer:
    """Scores pairs of names; the tokens of pictures used lately are kept, the oldest of them let go."""

    def __init__(self, encoder: Encoder, sides: tuple[str, str] = SIDES, *, closer_look: bool = True) -> None:
        """`sides` are the names of the two pictures in errors; with `closer_look` pairs get those that they deserve."""
        self.encoder, self.sides = encoder, sides
        self.looks = CloserLooks(encoder) if closer_look else None
        size = 2 * int(np.prod(encoder.scorer.runtime.token_shape))
        self.capacity = max(2 * CHUNK, CACHE_BYTES // size)
        self._kept: OrderedDict[str, np.ndarray | str] = OrderedDict()
        self._stamps: dict[str, Stamp | None] = {}

    def score_chunk(self, names_a: Sequence[str], names_b: Sequence[str]) -> Scores:
        """Score at most `CHUNK` pairs; an unreadable picture is an error of its pair."""
        self._encode_missing(dict.fromkeys([*names_a, *names_b]))
        (tokens_a, errors_a), (tokens_b, errors_b) = map(self._gather_tokens, (names_a, names_b))
        errors = pair_errors(self.sides, list(zip(errors_a, errors_b, strict=True)))
        looks, pairs = self.looks, list(zip(names_a, names_b, strict=True))
        look = (
            None
            if looks is None
            else lambda places: looks.look_at_pairs([pairs[place] for place in places], self._stamps)
        )
        same = self.encoder.have_one_content(pairs, self._stamps)
        scores = score_pairs(self.encoder.scorer, tokens_a, tokens_b, errors, same, look)
        while len(self._kept) > self.capacity:
            del self._stamps[self._kept.popitem(last=False)[0]]
        return scores

    def _gather_tokens(self, names: Sequence[str]) -> tuple[np.ndarray, list[str | None]]:
        """Gather tokens of kept pictures and, where there are none, the reasons."""
        kept = [self._kept[name] for name in names]
        blank = np.zeros(self.encoder.scorer.runtime.token_shape, np.float16)
        tokens = np.stack([blank if isinstance(one, str) else one for one in kept])
        return tokens, [one if isinstance(one, str) else None for one in kept]

    def _encode_missing(self, names: Iterable[str]) -> None:
        missing = []
        for name in names:
            if name in self._kept:
                self._kept.move_to_end(name)
            else:
                missing.append(name)
        self._stamps |= {name: self.encoder.read_stamp(name) for name in missing}
        tokens, errors = self.encoder.encode_pictures(missing)
        for place, name in enumerate(missing):
            # A copy, or the whole batch would stay in memory for one row of it.
            self._kept[name] = errors[place] if place in errors else tokens[place].copy()


def score_stream(
    scorer: Scorer,
    table: str,
    output: IO[bytes],
    format: str,
    tick: Tick,
    *,
    fetch: Fetch = refuse_url,
    sides: tuple[str, str] = SIDES,
    closer_look: bool = True,
) -> tuple[int, int, int]:
    """Score a table and write each chunk as soon as it is done; how many pairs there were, how many had errors, and how
    many got a closer look.
    """
    pairs = errors = closer_looks = 0
    base = Path.cwd() if table == "-" else Path(table).absolute().parent
    worker = PairScorer(Encoder(scorer, base, fetch), sides, closer_look=closer_look)
    with open_table(table, sides, CHUNK) as opened:
        columns = read_columns(table, sides) if kind_of(table) == "jsonl" else opened.columns
        # What comes by standard input is CSV, and cannot be read twice.
        schema = partial(make_text_schema, columns) if table == "-" else partial(read_schema, table, sides)
        writer = make_writer(format, output, columns, schema)
        for batch in opened.batches:
            scores = worker.score_chunk(batch.read_texts(sides[0]), batch.read_texts(sides[1]))
            writer.write(batch, scores)
            pairs += len(scores)
            errors += len(scores.errors)
            closer_looks += scores.closer_looks
            tick(len(scores))
        writer.close()
    return pairs, errors, closer_looks
