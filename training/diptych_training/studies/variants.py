"""The variants that are compared: one small pair network, alike in all but one part and in the number of parameters."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from diptych_model import MIXERS, Msac, PairConfig, PairNetwork, Residual, Scale
from diptych_model.flops import parameters

TOLERANCE = 0.05


def scales_of(*windows: int, residual_convolution: bool = False) -> Msac:
    """MSAC with these square windows, six SACs of one head of width 8 shared out among them.

    One head each, because H_Y reduces the heads of a SAC to d_o channels (section 2.1): six heads in one SAC would
    leave 8 channels where six SACs leave 48, and fewer windows would be punished for that.
    """
    each = 6 // len(windows)
    return Msac(
        tuple(Scale(n, n, 1, 8, 8, residual_convolution=residual_convolution) for n in windows for _ in range(each))
    )


BASE = PairConfig(
    pixels=24,
    encoder=Residual((32,), (2,)),
    width=32,
    embedding=64,
    blocks=2,
    mixer=scales_of(1, 3),
    segment="relative",
)


@dataclass(frozen=True)
class Variant:
    """A network, and the variant it differs from in one setting; the baseline names itself."""

    config: PairConfig
    against: str


def mixers() -> dict[str, Variant]:
    """Every mixer in MSAC's place. The segment is *added*, which all of them can have."""
    base = replace(BASE, segment="added")
    configs = {kind: replace(base, mixer=BASE.mixer if kind == "msac" else MIXERS[kind]()) for kind in MIXERS}
    return {kind: Variant(config, "msac") for kind, config in configs.items()}


def ablation() -> dict[str, Variant]:
    """MSAC {1, 3}, and its variants with one thing changed; the bias has rows of its own with the segment *added*, for
    the relative one lives in it.
    """
    base, added, literal = "scales 1,3", "segment added", "bias concatenated"
    return {
        base: Variant(BASE, base),
        "scales 1": Variant(replace(BASE, mixer=scales_of(1)), base),
        "scales 1,3,5": Variant(replace(BASE, mixer=scales_of(1, 3, 5)), base),
        "with H_R": Variant(replace(BASE, mixer=scales_of(1, 3, residual_convolution=True)), base),
        "segment none": Variant(replace(BASE, segment="none"), base),
        added: Variant(replace(BASE, segment="added"), base),
        "segment concatenated": Variant(replace(BASE, segment="concatenated"), base),
        "bias none": Variant(replace(BASE, segment="added", bias="none"), added),
        literal: Variant(replace(BASE, segment="added", bias="concatenated"), added),
        "seam open in tokens": Variant(replace(BASE, seam="tokens"), base),
        "seam open in pixels": Variant(replace(BASE, seam="pixels"), base),
        "the paper's literal form": Variant(
            replace(BASE, segment="added", bias="concatenated", seam="pixels"), literal
        ),
    }


STUDIES: dict[str, Callable[[], dict[str, Variant]]] = {"mixers": mixers, "ablation": ablation}


def equalised(config: PairConfig, target: int) -> PairConfig:
    """The same network with the feed-forward width that brings its parameters nearest to the target.

    Raises `ValueError` if that is further than 5 % from it.
    """
    sizes = [parameters(PairNetwork(replace(config, expansion=expansion))) for expansion in (1.0, 2.0)]
    expansion = 1 + (target - sizes[0]) / (sizes[1] - sizes[0])
    made = replace(config, expansion=max(round(expansion * config.width), 1) / config.width)
    reached = parameters(PairNetwork(made))
    if abs(reached / target - 1) > TOLERANCE:
        raise ValueError(
            f"the mixer {config.mixer.kind!r} cannot be brought to {target} parameters: it reaches {reached}"
        )
    return made
