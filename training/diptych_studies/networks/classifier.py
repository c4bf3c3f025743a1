"""A classifier of pictures as settings: a ResNet or a DenseNet with a mixer for each stage, and its checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from diptych_model.mixers import Mixer, mixer_from
from diptych_model.settings import known_settings
from diptych_studies.flops import count_flops
from diptych_studies.networks.densenet import DenseNet
from diptych_studies.networks.resnet import ResNet, mixers_by_stage

KINDS = ("resnet", "densenet")
WEIGHTS, CONFIG = "classifier.safetensors", "classifier.json"


@dataclass(frozen=True)
class ClassifierConfig:
    """The shape of a classifier for pictures of `pixels` x `pixels`.

    `depths` are the bottlenecks of each stage of a *resnet*, or the layers of each block of a *densenet*; `width` the
    inner channels of the first stage, or the growth. `spatial` stands in the place of every 3x3 convolution: nothing
    for convolutions, one mixer for all stages, or one for each.
    """

    kind: str = "resnet"
    depths: tuple[int, ...] = (2, 2, 2)
    width: int = 16
    pixels: int = 64
    spatial: tuple[Mixer, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if not self.depths or min(*self.depths, self.width, self.pixels) < 1:
            raise ValueError(f"depths, width and pixels must be positive, got {self}")
        mixers_by_stage(self._spatial_mixers(), len(self.depths))

    def build(self, classes: int) -> ResNet | DenseNet:
        """The network, with random weights, for so many classes."""
        sizes = (self.depths, classes, self.pixels, self.pixels)
        if self.kind == "resnet":
            return ResNet(*sizes, width=self.width, spatial=self._spatial_mixers())
        return DenseNet(*sizes, growth=self.width, spatial=self._spatial_mixers())

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, as written into a checkpoint."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ClassifierConfig":
        """Read the output of `to_dict`; an unknown key is refused with a suggestion."""
        known = known_settings(cls, values, "a classifier")
        known["depths"] = tuple(known.get("depths", cls.depths))
        mixers = known.get("spatial", ())
        known["spatial"] = tuple(mixer_from(each) for each in ([mixers] if isinstance(mixers, Mapping) else mixers))
        return cls(**known)

    def _spatial_mixers(self) -> Mixer | tuple[Mixer, ...] | None:
        """The mixers as the networks take them: one, one a stage, or none."""
        return self.spatial[0] if len(self.spatial) == 1 else self.spatial or None


def classifier_flops(config: ClassifierConfig, classes: int) -> int:
    """The operations of one picture, a multiply-add counted as two; nothing is computed."""
    with torch.device("meta"):
        return count_flops(config.build(classes), torch.empty(1, config.pixels, config.pixels, 3))


def save_classifier(
    network: ResNet | DenseNet,
    config: ClassifierConfig,
    classes: tuple[str, ...],
    directory: Path,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write `classifier.safetensors` and `classifier.json` into a directory; `metadata` must be JSON."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, directory / WEIGHTS)
    described = {"network": config.to_dict(), "classes": list(classes), "metadata": dict(metadata or {})}
    (directory / CONFIG).write_text(json.dumps(described, indent=2) + "\n")


def load_classifier(directory: Path) -> tuple[ResNet | DenseNet, tuple[str, ...], dict[str, Any]]:
    """Return the network, in evaluation mode, the names of its classes, and its metadata; `ValueError` where the
    directory holds none.
    """
    for name in (CONFIG, WEIGHTS):
        if not (directory / name).is_file():
            raise ValueError(f"a classifier is a directory with {CONFIG} and {WEIGHTS}; {directory} has no {name}")
    described = json.loads((directory / CONFIG).read_text())
    classes = tuple(described["classes"])
    network = ClassifierConfig.from_dict(described["network"]).build(len(classes))
    network.load_state_dict(load_file(directory / WEIGHTS))
    return network.eval(), classes, described["metadata"]
