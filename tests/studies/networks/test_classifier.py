"""Classifiers as settings: a mixer for each stage, equal operations, and a checkpoint that gives the same answers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from drawing import draw
from networks import TINY_MSAC

from diptych_model import MSAC, Msac, Scale
from diptych_studies.mixers.convolution import Convolution, PlainConvolution
from diptych_studies.networks.classifier import (
    KINDS,
    ClassifierConfig,
    load_classifier,
    save_classifier,
)
from diptych_studies.networks.resnet import Bottleneck

WIDE = Msac((Scale(5, 5, 1, 4, 4, separable=True), Scale(3, 3, 1, 4, 4, separable=True)))
NARROW = Msac((Scale(1, 1, 2, 4, 4),))
OWN = ClassifierConfig("resnet", (1, 2), 8, 20, (WIDE, NARROW))


@pytest.mark.parametrize("kind", KINDS)
def test_each_stage_has_the_scales_that_are_its_own(kind: str) -> None:
    network = replace(OWN, kind=kind).build(3)
    found = [[(sac.scale.n, sac.scale.m) for sac in part.sacs] for part in network.modules() if isinstance(part, MSAC)]
    assert found == [[(5, 5), (3, 3)], [(1, 1)], [(1, 1)]]


def test_one_mixer_stands_in_every_stage_and_none_is_a_convolution() -> None:
    blocks = [part for part in replace(OWN, spatial=(TINY_MSAC,)).build(3).modules() if isinstance(part, Bottleneck)]
    assert [type(block.spatial) for block in blocks] == [MSAC] * 3
    mixed = replace(OWN, spatial=(PlainConvolution(), TINY_MSAC)).build(3)
    kinds = [type(part.spatial) for part in mixed.modules() if isinstance(part, Bottleneck)]
    assert kinds == [Convolution, MSAC, MSAC]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_gives_the_same_answers_and_the_names_of_its_classes(kind: str, tmp_path: Path) -> None:
    config = replace(OWN, kind=kind)
    network, x = config.build(3).eval(), draw(2, 20, 20, 3).float()
    save_classifier(network, config, ("a", "b", "c"), tmp_path, {"seed": 4})
    loaded, classes, metadata = load_classifier(tmp_path)
    assert (classes, metadata) == (("a", "b", "c"), {"seed": 4})
    assert torch.equal(loaded(x), network(x))
    assert ClassifierConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ClassifierConfig("vgg"), "kind must be one of resnet, densenet, got 'vgg'"),
        (lambda: ClassifierConfig(width=0), "depths, width and pixels must be positive"),
        (lambda: ClassifierConfig(spatial=(WIDE, NARROW)), "one for each of the 3 stages, got 2"),
        (lambda: ClassifierConfig.from_dict({"dephts": [1]}), "did you mean 'depths'"),
        (lambda: load_classifier(Path("nowhere")), "nowhere has no classifier.json"),
    ],
)
def test_what_does_not_fit_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
