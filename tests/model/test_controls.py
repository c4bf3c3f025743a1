import torch

from diptych_model import PairConfig, PairNetwork, Residual

SIZES = {"pixels": 32, "encoder": Residual((8, 12), (1, 1)), "width": 16, "embedding": 7, "blocks": 1}


def network(relation: str) -> PairNetwork:
    torch.manual_seed(0)
    return PairNetwork(PairConfig(**SIZES, relation=relation)).eval().requires_grad_(False)


def test_the_siamese_twin_ranks_as_its_embedding_does() -> None:
    twin = network("siamese")
    a, b = torch.rand(2, 5, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    cosines = (twin.encode(a)[1] * twin.encode(b)[1]).sum(1)
    torch.testing.assert_close(twin(a, b), 10 * cosines - 5)


def test_late_interaction_is_the_mean_best_match_of_every_token_both_ways() -> None:
    late = network("late")
    a, b = torch.rand(2, 2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    tokens_a, tokens_b = (torch.nn.functional.normalize(late.encode(x)[0].flatten(1, 2), dim=-1) for x in (a, b))
    for pair, logit in enumerate(late(a, b)):
        table = [[float(x @ y) for y in tokens_b[pair]] for x in tokens_a[pair]]
        rows = sum(max(row) for row in table) / len(table)
        columns = sum(max(column) for column in zip(*table, strict=True)) / len(table[0])
        assert abs(float(logit) - (10 * (rows + columns) / 2 - 5)) < 1e-4
