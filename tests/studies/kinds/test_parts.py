"""What the parts of a model carry: each switch takes its part away, and the table says what is lost without it."""

from typing import Any

import pytest
import torch
from exported import make_tiny_network

from diptych_model import save_checkpoint
from diptych_model.network import PairPart
from diptych_model.operators import MSAC
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import planted
from diptych_studies.kinds.parts import LOOKS, WHOLE, list_switches, measure_parts, parts_text
from diptych_training.errors import DataError

MATCHING = {"prior", "trunk", "evidence"}
OTHERS = {"attention across", "segments", "bias", "windows 1 x 1", "windows 3 x 3"}


def make_pair(**changes: Any) -> tuple[PairPart, tuple[torch.Tensor, torch.Tensor]]:
    """A small pair part of two questions with segments in its bias, and tokens of three pairs."""
    network = make_tiny_network(questions=("copy", "thing"), segment="relative", **changes)
    with torch.no_grad():
        tokens = network.encode(torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0)))[0]
        for weight in network.pair.parameters():
            weight.add_(torch.rand(weight.shape, generator=torch.Generator().manual_seed(1)))
    assert isinstance(network.pair, PairPart)
    return network.pair, (tokens[:3], tokens[3:])


@torch.no_grad()
def switch_part_off(name: str) -> tuple[PairPart, tuple[torch.Tensor, torch.Tensor]]:
    pair, tokens = make_pair(correspondence=True, channels=8, merge=2)
    list_switches(pair)[name](pair)
    return pair, tokens


@pytest.mark.parametrize("name", sorted(MATCHING | OTHERS))
@torch.no_grad()
def test_a_switch_changes_the_answer_and_few_weights(name):
    (whole, tokens), (less, _) = make_pair(correspondence=True, channels=8, merge=2), switch_part_off(name)
    assert not whole(*tokens).equal(less(*tokens))
    theirs = less.state_dict()
    changed = {key.rpartition(".")[2] for key, weight in whole.state_dict().items() if not weight.equal(theirs[key])}
    assert changed <= {"weight", "bias", "table", "H_phi"}
    assert len(changed) <= 2


@torch.no_grad()
def test_what_is_off_adds_nothing():
    pair, tokens = switch_part_off("prior")
    assert not pair.logit_summands(*tokens)[0].any()
    pair, tokens = switch_part_off("trunk")
    assert not pair.logit_summands(*tokens)[1].any()
    pair, _ = switch_part_off("attention across")
    merged = torch.rand(2, 3, 4, 4, pair.segments.width)
    other = torch.cat([merged[:1], torch.rand(1, 3, 4, 4, pair.segments.width)])
    mixer = pair.blocks[0].mixer
    one, two = (mixer(torch.stack([*parts], 1).flatten(0, 1)).unflatten(0, (3, 2)) for parts in (merged, other))
    torch.testing.assert_close(one[:, 0], two[:, 0])  # what the other panel shows does not matter
    assert not torch.allclose(one[:, 1], two[:, 1])


@torch.no_grad()
def test_tables_and_windows_are_those_of_the_part():
    tables = [sac.bias.table for sac in _sacs(switch_part_off("segments")[0]) if sac.bias is not None]
    assert all(table[0].equal(table[1]) for table in tables)
    tables = [sac.bias.table for sac in _sacs(switch_part_off("bias")[0]) if sac.bias is not None]
    assert all(table.amax((2, 3)).equal(table.amin((2, 3))) and table.any() for table in tables)
    msac = next(part for part in switch_part_off("windows 3 x 3")[0].modules() if isinstance(part, MSAC))
    first = msac.sacs[0].scale.d_o
    assert msac.H_phi[:, :first].all()
    assert not msac.H_phi[:, first:].any()


def _sacs(pair: PairPart):
    return [sac for part in pair.modules() if isinstance(part, MSAC) for sac in part.sacs]


def test_a_network_without_correspondence_has_no_such_parts():
    assert set(list_switches(make_pair()[0])) == OTHERS


def test_the_table_has_every_part_with_its_loss(artifact_that_looks, artifact_of_two, tmp_path, monkeypatch):
    for name, value in {"DRAWN": 26, "COPIES": 4, "SIDE": 128}.items():
        monkeypatch.setattr(planted, name, value)
    checkpoint = tmp_path / "checkpoint"
    save_checkpoint(make_tiny_network(questions=("copy", "thing"), parts=2), checkpoint)
    result = measure_parts(checkpoint, Runtime.open(artifact_that_looks), tmp_path, tmp_path, kinds=["pages"])
    assert set(result["parts"]) == {WHOLE, "closer look", *OTHERS, *LOOKS}
    assert result["parts"][WHOLE]["shown"]["loss"]["all"] == [0.0, 0.0, 0.0]
    assert set(result["parts"]["bias"]["shown"]["loss"]) == {"all", "easy", "hard", "odd"}
    look = result["parts"]["closer look"]
    assert set(look) == {"shown"}
    value, low, high = look["shown"]["loss"]["all"]
    assert low <= value <= high
    assert value == pytest.approx(
        result["parts"][WHOLE]["shown"]["precision"] - result["parts"][WHOLE]["alone"]["precision"]
    )
    text = parts_text(result)
    assert text.count("\n") == len(result["parts"])  # a head, and a last line in the place of what is whole
    assert "odd copies" in text
    with pytest.raises(DataError, match="takes no closer look"):
        measure_parts(checkpoint, Runtime.open(artifact_of_two), tmp_path, tmp_path, kinds=["pages"])
    with pytest.raises(DataError, match="weights of a model, which are missing: a checkpoint is a directory"):
        measure_parts(tmp_path, Runtime.open(artifact_that_looks), tmp_path, tmp_path, kinds=["pages"])
