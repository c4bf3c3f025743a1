import pytest
import torch
import torch.nn.functional as F

from diptych_model.embedding import FOCUS, NEAREST, Embedding, cosines_of_parts, weight_queries, weights_of_parts

QUESTIONS = ("copy", "thing")


@pytest.fixture
def embedding() -> Embedding:
    torch.manual_seed(0)
    return Embedding(13, 14, parts=2, bank=11).double()


def described(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, 13, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_embedding_is_a_unit_vector_and_so_long_is_each_part(embedding: Embedding) -> None:
    made = embedding(described(5, 1))
    torch.testing.assert_close(made.norm(dim=1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(made[:, :7].norm(dim=1), made[:, 7:].norm(dim=1))


def test_of_one_part_it_is_the_projection_made_a_unit_vector() -> None:
    embedding = Embedding(13, 6).double()
    x = described(3, 1)
    torch.testing.assert_close(embedding(x), F.normalize(x @ embedding.weight.T + embedding.bias, dim=1))
    assert weights_of_parts(["match"], "match") == [1.0]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_query_that_asks_weighs_the_cosine_of_its_own_part_more(embedding: Embedding, question: str) -> None:
    a, b = embedding(described(5, 1)), embedding(described(5, 2))
    own, other = QUESTIONS.index(question), 1 - QUESTIONS.index(question)
    cosines = torch.stack([F.cosine_similarity(a[:, of], b[:, of]) for of in (slice(0, 7), slice(7, 14))], 1)
    torch.testing.assert_close(cosines_of_parts(a, b, 2), cosines)
    found = (weight_queries(a, weights_of_parts(QUESTIONS, question)) * b).sum(1)
    torch.testing.assert_close(found, FOCUS * cosines[:, own] + (1 - FOCUS) * cosines[:, other])


def test_how_typical_a_picture_is_are_the_cosines_of_its_nearest_in_the_bank(embedding: Embedding) -> None:
    embedding.bank.copy_(embedding(described(11, 3)).detach())
    a = embedding(described(4, 1))
    found = embedding.typicality(a)
    assert not found.requires_grad
    a = a.detach()
    for row in range(4):
        for part, of in enumerate((slice(0, 7), slice(7, 14))):
            cosines = sorted(float(F.cosine_similarity(a[row, of], known[of], dim=0)) for known in embedding.bank)
            assert float(found[row, part]) == pytest.approx(sum(cosines[-NEAREST:]) / NEAREST)
