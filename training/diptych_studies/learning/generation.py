"""Training of a small SAGAN on drawn shapes, and the distance of its pictures from drawn ones."""

import time
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model import PairNetwork, load_checkpoint
from diptych_studies.data.worlds import draw_things
from diptych_studies.flops import count_parameters
from diptych_studies.networks.sagan import (
    Discriminator,
    Generator,
    SaganConfig,
    discriminator_loss,
    generator_loss,
    list_gammas,
)
from diptych_training.errors import DataError
from diptych_training.recipe import start_of

FEATURES = "photo-small"  # the released model whose embedding the distance is taken in
SEEN = 64  # pixels of a side at which it looks
OTHERS = 2**31  # the seed of drawn pictures that training does not draw


@dataclass(frozen=True)
class SaganBudget:
    """The training of a generator and a discriminator: Adam with (beta_1, beta_2) = (0, 0.9) and a learning rate for
    each, one step of either in turns, `batch` pictures a step of the `pictures` drawn; `measured` made and drawn
    pictures give a distance, at `points` moments.
    """

    steps: int = 2000
    batch: int = 16
    generator_rate: float = 1e-4
    discriminator_rate: float = 4e-4
    pictures: int = 4000
    measured: int = 500
    points: int = 6
    average: float = 0.99

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.pictures, self.points) < 1 or self.measured < 2:
            raise DataError(f"steps, batch, pictures and points must be positive, measured 2 or more, got {self}")
        if min(self.generator_rate, self.discriminator_rate) <= 0 or not 0 <= self.average < 1:
            raise DataError(f"both rates must be positive and average from 0 to below 1, got {self}")


def train_sagan(
    config: SaganConfig, budget: SaganBudget | None = None, seed: int = 0
) -> tuple[Generator, dict[str, Any]]:
    """Train both networks; return a running average of the generator, and its figures as JSON.

    Weights, pictures and latent numbers follow from the seed. `gamma` has the share of attention in generator and
    discriminator after each hundredth of the steps, `losses` theirs in ten parts, and `distance` the Fréchet distance
    (see `compute_frechet_distance`) at some `at` steps; `floor` is that of two sets of drawn pictures.
    """
    budget = budget or SaganBudget()
    drawn = draw_things(budget.pictures, config.pixels, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator, average, discriminator = Generator(config), Generator(config), Discriminator(config)
        average.load_state_dict(generator.state_dict())
        random = torch.Generator().manual_seed(seed)
        measured = _Distance(config, budget)
        distances, at = [measured(average)], [0]
        losses, shares = [], []
        rates = ((generator, budget.generator_rate), (discriminator, budget.discriminator_rate))
        optimisers = [torch.optim.Adam(network.parameters(), rate, betas=(0.0, 0.9)) for network, rate in rates]
        moments = {round(budget.steps * point / budget.points) for point in range(1, budget.points + 1)}
        began, measuring = time.process_time(), 0.0
        for step in range(1, budget.steps + 1):
            rows = torch.randint(len(drawn), (budget.batch,), generator=random).numpy()
            losses.append(_train_step(generator, discriminator, optimisers, as_pictures(drawn[rows]), random))
            _update_average(average, generator, budget.average)
            if step % max(1, budget.steps // 100) == 0:
                shares.append([*list_gammas(generator), *list_gammas(discriminator)])
            if step in moments:
                before = time.process_time()
                distances.append(measured(average))
                at.append(step)
                measuring += time.process_time() - before
    parts = np.array_split(np.array(losses), min(10, len(losses)))
    return average.eval(), {
        "config": asdict(config),
        "parameters": count_parameters(generator),
        "discriminator_parameters": count_parameters(discriminator),
        "gamma": np.round(shares, 5).tolist(),
        "losses": [np.round(part.mean(0), 4).tolist() for part in parts],
        "at": at,
        "distance": [round(distance, 5) for distance in distances],
        "floor": round(measured.floor, 5),
        "processor_seconds": round(time.process_time() - began - measuring, 1),
    }


def make_pictures(generator: Generator, count: int, seed: int = 0) -> np.ndarray:
    """Pictures that a generator makes, uint8 (count, S, S, 3); the same seed, the same latent numbers."""
    latent = torch.randn(count, generator.config.latent, generator=torch.Generator().manual_seed(seed))
    generator.eval()
    with torch.inference_mode():
        made = torch.cat([generator(part) for part in latent.split(250)])
    return ((made + 1) * 127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()


def compute_frechet_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The Fréchet distance of two sets of features (n, e).

    Each is taken for a normal distribution (Heusel et al. 2017): |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)).
    """
    if min(len(one), len(other)) < 2 or one.shape[1:] != other.shape[1:]:
        raise ValueError(
            f"two sets of two features or more of one length are needed, got {one.shape} and {other.shape}"
        )
    one, other = one.astype(np.float64), other.astype(np.float64)
    C, D = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    # The trace of the root of C D is that of the root of the symmetric C^(1/2) D C^(1/2).
    values, vectors = np.linalg.eigh(C)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    common = np.sqrt(np.linalg.eigvalsh(root @ D @ root).clip(0)).sum()
    apart = one.mean(0) - other.mean(0)
    return float(apart @ apart + np.trace(C) + np.trace(D) - 2 * common)


def features_of(pixels: np.ndarray) -> np.ndarray:
    """The features of pictures uint8 (n, S, S, 3) in which their distance is taken: the embedding of the released
    `photo-small`, (n, e).
    """
    network = _load_feature_network()
    with torch.inference_mode():
        parts = [
            network.encode(F.interpolate(part.permute(0, 3, 1, 2).float() / 255, (SEEN, SEEN), mode="bilinear"))[1]
            for part in torch.from_numpy(pixels).split(100)
        ]
    return torch.cat(parts).numpy()


def as_pictures(pixels: np.ndarray) -> Tensor:
    """Pictures uint8 (n, S, S, 3) as float32 (n, 3, S, S) from -1 to 1."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


class _Distance:
    """The distance of a generator's pictures from drawn ones that it has not seen."""

    def __init__(self, config: SaganConfig, budget: SaganBudget) -> None:
        drawn = draw_things(2 * budget.measured, config.pixels, OTHERS)
        self.drawn, others = np.split(features_of(drawn), 2)
        self.floor = compute_frechet_distance(self.drawn, others)

    def __call__(self, generator: Generator) -> float:
        made = make_pictures(generator, len(self.drawn))
        return compute_frechet_distance(self.drawn, features_of(made))


@cache
def _load_feature_network() -> PairNetwork:
    return load_checkpoint(start_of(FEATURES))[0].eval()


def _train_step(
    generator: Generator,
    discriminator: Discriminator,
    optimisers: list[torch.optim.Adam],
    real: Tensor,
    random: torch.Generator,
) -> tuple[float, float]:
    """Train the discriminator for one step, then the generator.

    Return their losses, the generator's first.
    """
    latent = torch.randn(2, len(real), generator.config.latent, generator=random)
    generator.train()
    with torch.no_grad():
        made = generator(latent[0])
    told = discriminator_loss(discriminator(real), discriminator(made))
    _descend_gradient(optimisers[1], told)
    fooled = generator_loss(discriminator(generator(latent[1])))
    _descend_gradient(optimisers[0], fooled)
    return float(fooled.detach()), float(told.detach())


def _descend_gradient(optimiser: torch.optim.Adam, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


@torch.no_grad()
def _update_average(average: Generator, generator: Generator, share: float) -> None:
    """Move the average on; the vectors of spectral norms are copied, for a mean of unit vectors is none."""
    values = generator.state_dict()
    for name, mean in average.state_dict().items():
        averaged = mean.is_floating_point() and not name.endswith(("._u", "._v"))
        mean.lerp_(values[name], 1 - share) if averaged else mean.copy_(values[name])
