"""The adapter: the last linear maps of a pair part, fitted to labelled pairs by penalised log-loss.

All before them stands still, so that what they are given is computed once a pair, and a fit takes a fraction of a
second. The penalty is on how far logits move, on labelled pairs and on others, so that few labels change little.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych_model.network import PairNetwork, PairPart
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.recalibration import fit_line, log_loss, sigmoid
from diptych_runtime.manifest import Question
from diptych_training.errors import DataError

_CHUNK = 24
_SLIP = 0.01  # of labels, as in `recalibration`
_RIDGE = 1e-3


@dataclass(frozen=True)
class Link:
    """The log-odds of a question by the network alone: scale * logit + offset."""

    scale: float
    offset: float

    @classmethod
    def from_question(cls, question: Question) -> "Link":
        """Make the link of a question for pairs without closer look."""
        if question.after_look is not None and question.after_look.apart["logit"] > 0:
            return cls(question.after_look.apart["logit"], question.after_look.apart["bias"])
        return cls(question.scale, question.offset)

    def relevance(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities float64 (P,) of logits (P,)."""
        return sigmoid(self.scale * np.asarray(logits, np.float64) + self.offset)


class Adapter:
    """The last linear maps of a network's pair part: the head's and, of a network with `correspondence`, the prior's.

    `compute_features` gives what they are given; a column of weights (F,) makes the logit of a question of them.
    """

    def __init__(self, network: PairNetwork) -> None:
        """Raises DataError for a network without such maps."""
        if not isinstance(network.pair, PairPart) or network.config.seam == "pixels":
            raise DataError(
                "fine-tuning on labels needs a model whose trunk relates pairs of stored tokens; this one has "
                f"the seam {network.config.seam!r} and the relation {network.config.relation!r}"
            )
        self.network, self.pair = network.eval(), network.pair
        self.questions = network.config.questions

    @torch.no_grad()
    def compute_features(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Compute the input of the last maps for pairs of tokens.

        (P, N, M, d) -> float64 (P, F), a one at the end.
        """
        parts = [
            self._compute_features(torch.from_numpy(a.astype(np.float32)), torch.from_numpy(b.astype(np.float32)))
            for start in range(0, len(tokens_a), _CHUNK)
            for a, b in [(tokens_a[start : start + _CHUNK], tokens_b[start : start + _CHUNK])]
        ]
        return torch.cat(parts).double().numpy()

    def _compute_features(self, tokens_a: Tensor, tokens_b: Tensor) -> Tensor:
        ones = torch.ones(len(tokens_a), 1)
        if self.pair.correspondence is None:
            return torch.cat([self._compute_hidden(self.pair.pool_trunk(tokens_a, tokens_b)), ones], 1)
        merged_a, merged_b, known = self.pair.correspondence(tokens_a, tokens_b)
        return torch.cat(
            [self._compute_hidden(torch.cat([self.pair.pool_trunk(merged_a, merged_b), known], -1)), known, ones], 1
        )

    def _compute_hidden(self, seen: Tensor) -> Tensor:
        return F.gelu(cast(nn.Linear, self.pair.head[0])(seen))

    def weights(self) -> np.ndarray:
        """The weights float64 (F, Q) that the network has."""
        head = cast(nn.Linear, self.pair.head[-1])
        weight, bias = [head.weight], head.bias
        if self.pair.correspondence is not None:
            weight.append(self.pair.correspondence.prior.weight)
            bias = bias + self.pair.correspondence.prior.bias
        return torch.cat([*weight, bias[:, None]], 1).detach().double().numpy().T

    @torch.no_grad()
    def set_weights(self, weights: np.ndarray) -> None:
        """Give the network weights (F, Q)."""
        head, columns = cast(nn.Linear, self.pair.head[-1]), torch.from_numpy(weights.T).float()
        hidden = head.in_features
        head.weight.copy_(columns[:, :hidden])
        bias = columns[:, -1]
        if self.pair.correspondence is not None:
            prior = self.pair.correspondence.prior
            prior.weight.copy_(columns[:, hidden:-1])
            bias = bias - prior.bias
        head.bias.copy_(bias)

    def logits(self, features: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Logits float64 (P, Q) of all questions."""
        found = features @ weights
        if len(self.questions) == 1:
            return found
        copy, apart = found.T
        return np.stack([copy, np.logaddexp.reduce([copy, apart, copy + apart])], 1)


def fit_column(
    features: np.ndarray,
    same: np.ndarray,
    begin: np.ndarray,
    link: Link,
    strength: float,
    background: np.ndarray,
    fixed: np.ndarray | None = None,
) -> np.ndarray:
    """Fit one column of weights (F,) to labels (P,) of features (P, F).

    Minimises the log-loss of the labels, each wrong once in a hundred times, and `strength` times the mean square by
    which the column's output moves from that of `begin` (F,), on the pairs and on a `background` (B, F). Of the second
    of two questions the copy's logits (P,) are `fixed`.
    """
    held = np.concatenate([features, background])
    root = np.linalg.cholesky(strength * (held.T @ held) / len(held) + _RIDGE * np.eye(len(begin)))
    # In coordinates in which the penalty is a plain square, a few steps suffice.
    x, first = torch.from_numpy(np.linalg.solve(root, features.T).T.copy()), torch.from_numpy(features @ begin)
    y, copies = torch.from_numpy(same.astype(np.float64)), None if fixed is None else torch.from_numpy(fixed)
    moved = torch.zeros(len(begin), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([moved], max_iter=60, tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        logits = first + x @ moved
        if copies is not None:
            logits = torch.stack([copies, logits, copies + logits], -1).logsumexp(-1)
        said = _SLIP + (1 - 2 * _SLIP) * torch.sigmoid(link.scale * logits + link.offset)
        loss = -(y * said.log() + (1 - y) * (1 - said).log()).sum() + moved.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return begin + np.linalg.solve(root.T, moved.detach().numpy())


@dataclass(frozen=True)
class Labelled:
    """Labelled pairs of one question: `features` (P, F), whether they are the `same` (P,), and the `groups` (P,) that
    stay together in cross-validation.
    """

    question: str
    features: np.ndarray
    same: np.ndarray
    groups: np.ndarray

    def select_pairs(self, chosen: np.ndarray) -> "Labelled":
        """Select some of the pairs, those that are true in bool (P,)."""
        return replace(self, features=self.features[chosen], same=self.same[chosen], groups=self.groups[chosen])

    def renumber_groups(self) -> "Labelled":
        """Number the groups without gaps, so that every fold has some."""
        return replace(self, groups=np.unique(self.groups, return_inverse=True)[1])


class Fitting:
    """Fits of one question's column, by cross-validation; `weights` (F, Q) are those of all columns so far.

    The link is laid over its labels first (`recalibration.fit_line`), so that weights move for what a calibration alone
    cannot say.
    """

    def __init__(self, adapter: Adapter, weights: np.ndarray, link: Link, background: np.ndarray, folds: int) -> None:
        self.adapter, self.weights, self.link, self.background, self.folds = adapter, weights, link, background, folds

    def find_column(self, question: str) -> int:
        """Find the column of weights that belongs to a question."""
        return list(self.adapter.questions).index(question)

    def fit_link(self, labelled: Labelled) -> Link:
        """Fit the link to these labels, as a calibration alone would.

        Raises ValueError where they contradict the logits.
        """
        logits = self.logits(labelled, self.weights)[:, self.find_column(labelled.question)]
        line = fit_line(self.link.scale * logits + self.link.offset, labelled.same)
        return Link(line.scale * self.link.scale, line.scale * self.link.offset + line.offset)

    def fit_weights(self, labelled: Labelled, strength: float | None) -> np.ndarray:
        """Fit the question's column of the weights (F, Q); None leaves it."""
        if strength is None:
            return self.weights
        column, found = self.find_column(labelled.question), self.weights.copy()
        two = labelled.question == THING and COPY in self.adapter.questions
        fixed = labelled.features @ self.weights[:, self.find_column(COPY)] if two else None
        begin, link = self.weights[:, column], self.fit_link(labelled)
        found[:, column] = fit_column(labelled.features, labelled.same, begin, link, strength, self.background, fixed)
        return found

    def logits(self, labelled: Labelled, weights: np.ndarray) -> np.ndarray:
        """Logits float64 (P, Q)."""
        return self.adapter.logits(labelled.features, weights)

    def held_out(self, labelled: Labelled, strength: float | None) -> np.ndarray:
        """Logits float64 (P, Q) of each pair by a fit that saw none of its group."""
        found = self.logits(labelled, self.weights)
        for out in self._list_folds(labelled) if strength is not None else ():
            found[out] = self.logits(
                labelled.select_pairs(out), self.fit_weights(labelled.select_pairs(~out), strength)
            )
        return found

    def choose_strength(self, labelled: Labelled, strengths: tuple[float, ...]) -> float | None:
        """Choose the strength with the lowest log-loss of pairs held out.

        None where no fit beats the model that it begins with by more than twice the gain's standard error.
        """
        column, link = self.find_column(labelled.question), self.fit_link(labelled)

        def losses(strength: float | None) -> np.ndarray:
            return log_loss(link.relevance(self.held_out(labelled, strength)[:, column]), labelled.same)

        tried = {strength: losses(strength) for strength in sorted(strengths, reverse=True)}
        best = min(tried, key=lambda strength: float(tried[strength].mean()))
        gain = losses(None) - tried[best]
        error = math.sqrt(float(np.square(np.bincount(labelled.groups, gain - gain.mean())).sum())) / len(gain)
        return best if gain.mean() > 2 * error else None

    def cross_validate(
        self, labelled: Labelled, strengths: tuple[float, ...], tick: Callable[[], object]
    ) -> np.ndarray:
        """Compute the logits of each pair by a fit without its group.

        Nor has the choice of the fit's strength seen the group. Logits are float64 (P, Q); `tick` is called after every
        fold.
        """
        found = self.logits(labelled, self.weights)
        for out in self._list_folds(labelled):
            others = labelled.select_pairs(~out).renumber_groups()
            weights = self.fit_weights(others, self.choose_strength(others, strengths))
            found[out] = self.logits(labelled.select_pairs(out), weights)
            tick()
        return found

    def _list_folds(self, labelled: Labelled) -> Iterator[np.ndarray]:
        """Which pairs are held out in each fold, bool (P,): none where those left are all the same, or none is."""
        for fold in range(self.folds):
            out = labelled.groups % self.folds == fold
            if not out.any() or not 0 < labelled.same[~out].mean() < 1:
                continue
            yield out
