"""The network of one hidden layer that weighs the evidence of pairs which can be laid over each other, and its fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diptych_runtime.calibration.evidence import FEATURES, Hidden, Verification

IN_VAIN = ("bias", "odds", "unmatched")  # what is weighed of pairs that cannot be laid over each other
LAID = tuple(name for name in FEATURES if name not in IN_VAIN)  # and of the others: 0 where they cannot be
PLACES = [list(FEATURES).index(name) for name in LAID]
UNITS, STEPS, RATE, DECAY = 16, 600, 1e-2, 0.03
NOISE = 0.1  # of a standard deviation, added to every feature at every step: few pairs are much alike
NARROWEST = 0.05  # standard deviation that a feature counts with
_DECIMALS = 5  # of weights, which a manifest has as text


@dataclass(frozen=True)
class Layers:
    """Log-odds `linear` . x + `out` . relu(`hidden` x) of the features `LAID` x (F,): (F,), (H,) and (H, F)."""

    linear: np.ndarray
    hidden: np.ndarray
    out: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """`FEATURES` of pairs, float64 (P, F), to log-odds (P,)."""
        x = x[:, PLACES]
        return x @ self.linear + np.maximum(x @ self.hidden.T, 0) @ self.out

    def weights(self, in_vain: Mapping[str, float], scale: float, offset: float) -> dict[str, float]:
        """The weights of `FEATURES` that give pairs which can be laid over each other scale * odds + offset, without
        the hidden layer's part, and the others the odds by the weights `in_vain`.
        """
        found = dict(zip(LAID, (scale * self.linear).tolist(), strict=True)) | dict(in_vain)
        found["registered"] += offset - in_vain["bias"]
        found["registered_odds"] -= in_vain["odds"]
        return {name: round(found[name], _DECIMALS) for name in FEATURES}

    def units(self, scale: float) -> Hidden:
        """The hidden layer of scale * odds."""
        weights = tuple(tuple(row) for row in np.round(self.hidden, _DECIMALS).tolist())
        return Hidden(LAID, weights, tuple(np.round(scale * self.out, _DECIMALS).tolist()))

    def verification(
        self, above: float, in_vain: Mapping[str, float], apart: dict[str, float], scale: float, offset: float
    ) -> Verification:
        """The verification of scale * odds + offset, with other weights for pairs that are looked at `in_vain`, or
        stay `apart` from those that are looked at.
        """
        return Verification(above, self.weights(in_vain, scale, offset), apart=apart, hidden=self.units(scale))


def fit_layers(x: np.ndarray, labels: np.ndarray, weight: np.ndarray, seed: int = 0) -> Layers:
    """Fit `FEATURES` of pairs, float64 (P, F), to their labels (P,) by weighed log-loss: AdamW over all of them.

    From no pairs nothing is learnt, and all have even odds.
    """
    if not len(x):
        return Layers(np.zeros(len(LAID)), np.zeros((1, len(LAID))), np.zeros(1))
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, linear, relu

    x = x[:, PLACES]
    constant = LAID.index("registered")
    mean, spread = x.mean(0), np.maximum(x.std(0), NARROWEST)
    mean[constant], spread[constant] = 0.0, 1.0
    known = torch.from_numpy((x - mean) / spread).float()
    told, share = torch.from_numpy(labels).float(), torch.from_numpy(weight / weight.sum()).float()
    random = torch.Generator().manual_seed(seed)
    count = len(LAID)
    direct = torch.zeros(count)
    hidden = torch.randn(UNITS, count, generator=random) / count**0.5
    silent = torch.from_numpy(np.ptp(x, 0) == 0)  # of these nothing can be learnt
    silent[constant] = False
    hidden[:, silent] = 0
    silent[constant] = True
    out = torch.randn(UNITS, generator=random) / UNITS**0.5
    learnt = [part.requires_grad_(True) for part in (direct, hidden, out)]
    optimiser = torch.optim.AdamW(learnt, RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        noise = torch.randn(known.shape, generator=random) * NOISE
        noise[:, silent] = 0
        noisy = known + noise
        odds = noisy @ direct + relu(linear(noisy, hidden)) @ out
        loss = (binary_cross_entropy_with_logits(odds, told, reduction="none") * share).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    direct, hidden, out = (part.detach().double().numpy() for part in learnt)

    def of_features(weights: np.ndarray) -> np.ndarray:
        """Weights of x where these are of (x - mean) / spread: the constant has what the mean takes away."""
        found = weights / spread
        found[..., constant] -= (found * mean).sum(-1)
        return found

    return Layers(of_features(direct), of_features(hidden), out)


def mean_of(layers: Sequence[Layers]) -> Layers:
    """The layers whose log-odds are the mean of those of several."""
    return Layers(
        np.mean([one.linear for one in layers], axis=0),
        np.concatenate([one.hidden for one in layers]),
        np.concatenate([one.out for one in layers]) / len(layers),
    )
