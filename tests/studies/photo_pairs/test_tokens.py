"""Tokens computed once: those of the released panel part, with a match and look-alikes for every query."""

from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_model.embedding import weight_queries, weights_of_parts
from diptych_studies.photo_pairs import tokens as module
from diptych_studies.photo_pairs.tokens import SETS, Drawn, Tokens, keep_tokens

FEW = Drawn(steps=1, copies=4, shots=2, negatives=2, easy=1, asked=3, others=4, candidates=3, mined=64)


@pytest.mark.slow  # it runs the released network over some hundred pictures
def test_tokens_are_those_of_the_released_panel_part_and_are_computed_once(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = tmp_path / "tokens", []
    keep_tokens(folder, archives, FEW, said.append)
    kept = Tokens(folder)
    drawn = kept.read_pairs(0)
    assert drawn.tokens.shape[1:] == (12, 12, 64)
    assert drawn.tokens.dtype == torch.float16
    count = len(drawn.matched)
    assert drawn.chosen.shape == (count, 3)
    assert drawn.chosen.min() >= count
    assert drawn.chosen.max() < len(drawn.tokens)
    assert drawn.copies.tolist() == [True] * 4 + [False] * (count - 4)
    for kind in SETS:
        held_out = kept.held_out(kind)
        assert held_out.queries.shape[1:] == held_out.gallery.shape[1:] == (12, 12, 64)
        assert held_out.relevant.shape == tuple(held_out.candidates.shape) == (len(held_out.queries), 3)
        assert (held_out.cosines.diff(dim=1) <= 0).all()
        assert (held_out.relevant.sum(1) <= held_out.positives).all()
        # The embedding lies in the tokens' last channels: with the weights of the question it gives the same cosines.
        weights = weights_of_parts(["copy", "thing"], "copy" if kind == "copies" else "thing")
        query, gallery = (part.float()[..., 62:].flatten(1)[:, :256] for part in (held_out.queries, held_out.gallery))
        again = (weight_queries(query, weights) @ gallery.T).gather(1, held_out.candidates)
        np.testing.assert_allclose(again, held_out.cosines, atol=2e-2)
    assert said
    monkeypatch.setattr(module, "load_checkpoint", lambda _: pytest.fail("they were computed again"))
    keep_tokens(folder, archives, FEW)


def test_the_digest_is_of_every_setting() -> None:
    assert FEW.digest == Drawn(**vars(FEW)).digest
    assert len({FEW.digest, Drawn().digest, Drawn(seed=1).digest, Drawn(photos=("clothing",)).digest}) == 4
