"""The variants that are compared: one small pair network, alike in all but one part and in the number of parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from diptych_model import EfficientNetLite, Msac, PairConfig, PairNetwork, Residual, Scale
from diptych_studies.flops import count_parameters
from diptych_studies.mixers import MIXERS
from diptych_training.errors import DataError

TOLERANCE = 0.05


def scales_of(*windows: int | tuple[int, int], heads: int = 1, sacs: int = 6, **settings: bool) -> Msac:
    """MSAC with these windows, n x n or (n, m), and `sacs` SACs of one head of width 8 shared out among them.

    One head each, because H_Y reduces the heads of a SAC to d_o channels (section 2.1): six heads in one SAC would
    leave 8 channels where six SACs leave 48, and fewer windows would be punished for that. With more `heads` a SAC is
    so many times as wide.
    """
    sizes = [(window, window) if isinstance(window, int) else window for window in windows]
    each, width = sacs // len(sizes), 8 * heads
    return Msac(tuple(Scale(n, m, heads, 8, width, **settings) for n, m in sizes for _ in range(each)))


BASE = PairConfig(
    pixels=24,
    encoder=Residual((32,), (2,)),
    width=32,
    embedding=64,
    blocks=2,
    mixer=scales_of(1, 3),
    segment="relative",
)
# The panel part of the released `photo`, and a small trunk over what it gives.
PHOTO = PairConfig(
    pixels=192,
    encoder=EfficientNetLite(still=4, rate=0.06, depthwise=False),
    width=62,
    embedding=256,
    blocks=2,
    mixer=scales_of(1, 3),
    segment="relative",
    questions=("copy", "thing"),
    correspondence=True,
    channels=32,
    merge=2,
    bank=512,
    parts=2,
)


@dataclass(frozen=True)
class Variant:
    """A network, and the variant it differs from in one setting; the baseline names itself."""

    config: PairConfig
    against: str


def list_mixers(network: PairConfig | None = None) -> dict[str, Variant]:
    """Every mixer in MSAC's place. The segment is *added*, which all of them can have."""
    network = network or BASE
    base = replace(network, segment="added")
    configs = {kind: replace(base, mixer=network.mixer if kind == "msac" else MIXERS[kind]()) for kind in MIXERS}
    return {kind: Variant(config, "msac") for kind, config in configs.items()}


def list_ablation() -> dict[str, Variant]:
    """MSAC {1, 3} over drawings, and its variants with one thing changed."""
    concatenated = "bias concatenated"
    variants = _list_changes(BASE)
    return {
        **variants,
        "seam open in pixels": Variant(replace(BASE, seam="pixels"), next(iter(variants))),
        "the paper's literal form": Variant(replace(variants[concatenated].config, seam="pixels"), concatenated),
    }


def list_ablation_on_photos() -> dict[str, Variant]:
    """MSAC {1, 3} over the tokens of photos, and its variants with one thing changed. The seam cannot be opened in
    pixels: the tokens are those of single photos.
    """
    return _list_changes(PHOTO)


def _list_changes(network: PairConfig) -> dict[str, Variant]:
    """A network with MSAC {1, 3} and a relative segment, and its variants with one thing changed; the bias has rows of
    its own with the segment *added*, for the relative one lives in it.
    """
    base, added = "scales 1,3", "segment added"
    segment_added = replace(network, segment="added")
    changed = {
        base: network,
        "scales 1": replace(network, mixer=scales_of(1)),
        "scales 1,3,5": replace(network, mixer=scales_of(1, 3, 5)),
        "scales 1, 1 x 3, 3 x 1": replace(network, mixer=scales_of(1, (1, 3), (3, 1))),
        "2 SACs of 3 heads": replace(network, mixer=scales_of(1, 3, heads=3, sacs=2)),
        "2 SACs of 1 head": replace(network, mixer=scales_of(1, 3, sacs=2)),
        "with H_R": replace(network, mixer=scales_of(1, 3, residual_convolution=True)),
        "separable": replace(network, mixer=scales_of(1, 3, separable=True)),
        "begun across": replace(network, mixer=replace(scales_of(1, 3), crossing=4.0)),
        "segment none": replace(network, segment="none"),
        added: segment_added,
        "segment concatenated": replace(network, segment="concatenated"),
        "bias none": replace(segment_added, bias="none"),
        "bias concatenated": replace(segment_added, bias="concatenated"),
        "seam open in tokens": replace(network, seam="tokens"),
    }
    against = {label: added if label.startswith("bias") else base for label in changed}
    return {label: Variant(config, against[label]) for label, config in changed.items()}


STUDIES: dict[str, Callable[[], dict[str, Variant]]] = {"mixers": list_mixers, "ablation": list_ablation}
ON_PHOTOS: dict[str, Callable[[], dict[str, Variant]]] = {
    "mixers": lambda: list_mixers(PHOTO),
    "ablation": list_ablation_on_photos,
}


def choose_variants(
    variants: Mapping[str, Variant],
    study: str,
    only: Sequence[str] = (),
    made: Callable[[PairConfig], nn.Module] = PairNetwork,
) -> dict[str, Variant]:
    """Choose variants of a study, and give all the same parameters.

    They are all variants, or `only` some and those they differ from, each with as many parameters as the largest of all
    has (see `equalise_parameters`). Raises `DataError` for one that the study lacks.
    """
    if unknown := [label for label in only if label not in variants]:
        raise DataError(f"the study {study!r} has no variant {unknown[0]!r}; it has {', '.join(variants)}")
    wanted = set(only or variants)
    while missing := {variants[label].against for label in wanted} - wanted:
        wanted |= missing
    target = max(count_parameters(made(variant.config)) for variant in variants.values())
    return {
        label: replace(variant, config=equalise_parameters(variant.config, target, made))
        for label, variant in variants.items()
        if label in wanted
    }


def equalise_parameters(
    config: PairConfig, target: int, made: Callable[[PairConfig], nn.Module] = PairNetwork
) -> PairConfig:
    """Choose the feed-forward width that brings a network's parameters nearest to the target.

    They are those of what is `made` of a configuration: the network, or its pair part alone. Raises `ValueError` if
    that is further than 5 % from it.
    """
    sizes = [count_parameters(made(replace(config, expansion=expansion))) for expansion in (1.0, 2.0)]
    expansion = 1 + (target - sizes[0]) / (sizes[1] - sizes[0])
    width = config.trunk_width
    equal = replace(config, expansion=max(round(expansion * width), 1) / width)
    reached = count_parameters(made(equal))
    if abs(reached / target - 1) > TOLERANCE:
        raise ValueError(
            f"the mixer {config.mixer.kind!r} cannot be brought to {target} parameters: it reaches {reached}"
        )
    return equal
