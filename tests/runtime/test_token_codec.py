from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diptych_runtime.errors import ArtifactError
from diptych_runtime.token_codec import TokenCodec, read_numbers

SHAPE = (3, 2, 9)
CODEC = TokenCodec(SHAPE, 7)

finite = st.floats(-60000, 60000, width=16) | st.floats(-1, 1, width=16) | st.floats(-(2.0**-14), 2.0**-14, width=16)
some = arrays(np.float16, st.tuples(st.integers(0, 4), *map(st.just, SHAPE)), elements=finite)


def bits(tokens: np.ndarray) -> list[int]:
    return tokens.view(np.uint16).ravel().tolist()


@given(some)
def test_nothing_of_what_was_rounded_is_lost_in_keeping_it(tokens):
    rounded = CODEC.round_tokens(tokens)
    assert bits(CODEC.round_tokens(rounded)) == bits(rounded), "rounding again changes nothing"
    kept = CODEC.pack_tokens(rounded)
    assert bits(CODEC.unpack_tokens(kept)) == bits(rounded)
    assert all(len(one) == CODEC.nbytes < CODEC.float16_nbytes == tokens[:1].nbytes for one in kept)
    assert [read_numbers(one).tolist() for one in kept] == [one.ravel().tolist() for one in rounded]


@given(some)
def test_a_number_moves_by_half_a_step_at_most_and_the_largest_by_one_and_the_last_channels_not(tokens):
    rounded = CODEC.round_tokens(tokens)
    assert bits(rounded[..., 7:].copy()) == bits(tokens[..., 7:].copy())
    known, moved = (one[..., :7].astype(np.float64) for one in (tokens, rounded))
    top = np.abs(known).max(-1, keepdims=True)
    steps = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(top, 2.0**-30))) - 6, -21)
    assert (np.abs(moved - known) <= np.where(np.abs(known) > 127 * steps, 1, 0.5) * steps).all()


def test_what_an_earlier_version_kept_in_float16_comes_back_as_it_would_be_made_now():
    tokens = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float16)
    kept = [tokens[0].tobytes(), CODEC.pack_tokens(CODEC.round_tokens(tokens))[1], tokens[2].tobytes()]
    assert bits(CODEC.unpack_tokens(kept)) == bits(CODEC.round_tokens(tokens))
    assert read_numbers(kept[0]).tolist() == tokens[0].ravel().tolist()


def test_a_model_without_channels_in_8_bits_keeps_float16_as_it_is():
    codec, tokens = TokenCodec(SHAPE), np.random.default_rng(0).normal(size=(2, *SHAPE)).astype(np.float16)
    assert codec.round_tokens(tokens) is tokens
    assert (codec.nbytes, codec.suffix) == (codec.float16_nbytes, "")
    assert bits(codec.unpack_tokens(codec.pack_tokens(tokens))) == bits(tokens)
    assert [len(one) for one in codec.pack_tokens(tokens)] == [codec.nbytes] * 2


@pytest.mark.parametrize("cut", [1, 10, 50])
def test_bytes_of_another_length_or_shape_are_refused(cut):
    tokens = np.ones((2, *SHAPE), np.float16)
    kept = CODEC.pack_tokens(tokens)
    with pytest.raises(ArtifactError, match=f"stored tokens of {CODEC.nbytes - cut:,} bytes are none of this model"):
        CODEC.unpack_tokens([kept[0], kept[1][:-cut]])
    with pytest.raises(ValueError, match="buffer size"):
        read_numbers(kept[1][: CODEC.nbytes // 2 * 2 - 1])
    other = TokenCodec((3, 2, 8), 7)
    for one in ([kept[0]], [tokens[0].tobytes(), kept[0]]):
        with pytest.raises(ArtifactError, match=r"are none of this model, which keeps 70; `diptych index rebuild`"):
            other.unpack_tokens(one)


@pytest.mark.parametrize("channels", [0, 5, 9])
def test_tokens_of_an_artifact_that_keeps_others_in_8_bits_are_not_compared_with_its_own(channels):
    kept = CODEC.pack_tokens(np.ones((1, *SHAPE), np.float16))
    said = f"have 7 of 9 channels in 8 bits, and this artifact keeps {channels}: .* export its checkpoint again"
    with pytest.raises(ArtifactError, match=said):
        TokenCodec(SHAPE, channels).unpack_tokens(kept)
    with pytest.raises(ValueError, match="must be 0 to 9, as a token has no more, got 10"):
        TokenCodec(SHAPE, 10)
