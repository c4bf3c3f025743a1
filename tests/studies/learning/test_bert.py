"""Training a small BERT: which spans follow, what is hidden, and a text whose pairs can be told in seconds."""

import pytest
import torch

from diptych_studies.data.text import Text
from diptych_studies.data.words import Vocabulary
from diptych_studies.learning.bert import draw_pairs, hide_words, measure_bert, train_bert
from diptych_studies.learning.language import Budget
from diptych_studies.networks.bert import BertConfig
from diptych_studies.networks.language_model import build_window_scales

# Ten words in a row, again and again: what follows is known from the last word.
ROW = b"one two three four five six seven eight nine ten "
TEXT = Text("rows", ROW * 300, ROW * 90, "block")
VOCABULARY = Vocabulary.build_from(TEXT.train, 11)
SMALL = BertConfig(11, span=4, width=24, blocks=2, scales=build_window_scales((1, 2), heads=2, d_a=8))


def test_half_of_the_pairs_follow_and_they_are_what_the_text_has() -> None:
    words = torch.arange(500)
    pairs = draw_pairs(words, 4, 400, torch.Generator().manual_seed(0))
    assert 0.4 < pairs.follows.double().mean() < 0.6
    assert torch.equal(pairs.first[:, 1:] - pairs.first[:, :-1], torch.ones(400, 3, dtype=torch.long))
    follows = pairs.second[:, 0] == pairs.first[:, -1] + 1
    assert follows[pairs.follows == 1].all()
    assert follows[pairs.follows == 0].double().mean() < 0.05


def test_a_share_of_the_words_is_hidden_four_fifths_of_it_masked_and_no_other_token() -> None:
    tokens = torch.randint(11, (4000, 12), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[:, 5] = SMALL.begin, SMALL.separation
    hidden, chosen = hide_words(tokens, SMALL, 0.15, torch.Generator().manual_seed(1))
    assert not chosen[:, [0, 5]].any()
    assert chosen.sum() / (4000 * 10) == pytest.approx(0.15, abs=0.02)
    assert torch.equal(hidden[~chosen], tokens[~chosen])
    masked, same = hidden[chosen] == SMALL.mask, hidden[chosen] == tokens[chosen]
    assert masked.double().mean() == pytest.approx(0.8, abs=0.05)
    # A tenth is left, and a random word may be the same one.
    assert same.double().mean() == pytest.approx(0.1 + 0.1 / 11, abs=0.04)
    assert hidden.max() <= SMALL.separation


@pytest.mark.slow
def test_words_and_what_follows_are_learnt_from_a_text_and_the_same_seed_learns_the_same() -> None:
    network, result = train_bert(SMALL, TEXT, VOCABULARY, Budget(steps=500, batch=16, rate=5e-3, warmup=10), 0)
    assert result["words_right"] > 0.8 > 2 * result["words_base"]
    assert result["follows_right"] / result["pairs"] > 0.75
    assert result["curve"][-1][0] < 0.5 * result["curve"][0][0]
    held_out = torch.from_numpy(VOCABULARY.encode(TEXT.held_out))
    again = measure_bert(network, held_out)
    assert again == {key: result[key] for key in again}
    short = Budget(steps=2, batch=4, warmup=1)
    (_, first), (_, second) = (train_bert(SMALL, TEXT, VOCABULARY, short, 3) for _ in range(2))
    assert first == second
