"""`diptych evaluate parts`: what the parts of a released model carry, each switched off in turn as it runs.

Copies are told from look-alikes in planted kinds of pictures, by the network alone and as it is shown after closer
looks, which are the same whatever is off.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from diptych.console import format_table
from diptych_model import load_checkpoint
from diptych_model.correspondence import Correspondence
from diptych_model.network import PairPart
from diptych_model.operators import MSAC
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import look_closer
from diptych_studies.kinds.numbers import Ranking, name_families
from diptych_studies.kinds.planted import KINDS, add_odd_copies, open_planted
from diptych_training.errors import DataError

WHOLE = "nothing"
OTHERS = 1200  # pairs of a kind that are no copies, at most; of those that are, all
_NEVER = -1e4  # a bias that lets nothing through
_BATCH = 128
_DRAWS = 300

SwitchOff = Callable[[PairPart], object]


def _silence_prior(pair: PairPart) -> None:
    for weight in cast(Correspondence, pair.correspondence).prior.parameters():
        weight.zero_()


def _silence_evidence(pair: PairPart) -> None:
    """Merge tokens without the numbers of their best matches."""
    matches = cast(Correspondence, pair.correspondence)
    matches.merge.weight.unflatten(1, (matches.side**2, -1))[..., matches.width :] = 0


def _silence_trunk(pair: PairPart) -> None:
    for weight in pair.head[-1].parameters():
        weight.zero_()


def _silence_windows(window: tuple[int, int], pair: PairPart) -> None:
    """Reduce the scales without what those of one window have found."""
    for msac in _list_msacs(pair):
        begin = 0
        for sac in msac.sacs:
            if (sac.scale.n, sac.scale.m) == window:
                msac.H_phi[:, begin : begin + sac.scale.d_o] = 0
            begin += sac.scale.d_o


def _change_tables(change: Callable[[Tensor], object], pair: PairPart) -> None:
    """Change the tables of the bias, (2, heads, rows, columns): within a panel, and across the seam."""
    for msac in _list_msacs(pair):
        for bias in (sac.bias for sac in msac.sacs if sac.bias is not None):
            change(bias.table)


def list_switches(pair: PairPart) -> dict[str, SwitchOff]:
    """The parts of a network, each with what switches it off."""
    windows = sorted({(sac.scale.n, sac.scale.m) for msac in _list_msacs(pair) for sac in msac.sacs})
    matching: dict[str, SwitchOff] = {"prior": _silence_prior, "trunk": _silence_trunk, "evidence": _silence_evidence}
    return {
        **(matching if pair.correspondence else {}),
        "attention across": partial(_change_tables, lambda table: table[1:].fill_(_NEVER)),
        "segments": partial(_change_tables, lambda table: table[1:].copy_(table[:1])),
        "bias": partial(_change_tables, lambda table: table.copy_(table.mean((2, 3), keepdim=True).expand_as(table))),
        **{f"windows {n} x {m}": partial(_silence_windows, (n, m)) for n, m in windows},
    }


def _list_msacs(pair: PairPart) -> Iterable[MSAC]:
    return (part for part in pair.modules() if isinstance(part, MSAC))


# What a closer look has seen with a part of it off.
LOOKS: Mapping[str, Callable[[Evidence], Evidence]] = {
    "aligned-pair network": lambda seen: replace(seen, aligned_odds=0.0),
    "containment": lambda seen: replace(seen, containment=0.0),
}


class _Rankings(NamedTuple):
    """The pairs of a kind by every switch: rankings of the network `alone`, and as they are `shown`, by the name of
    what is off and by family of edits.
    """

    alone: dict[str, dict[str, Ranking]]
    shown: dict[str, dict[str, Ranking]]


def measure_parts(
    checkpoint: Path,
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """What the average precision of copies loses, a mean over the kinds, with each part off, and its 95 % interval.

    `checkpoint` has the model's weights, `folder` the archives, and `directory` keeps what was drawn and looked at.
    Raises `DataError` for a model that takes no closer look, or without weights.
    """
    runtime = runtime.asking(COPY)
    if runtime.verification is None:
        raise DataError(f"{runtime.name} takes no closer look whose parts could be switched off")
    try:
        pair = cast(PairPart, load_checkpoint(checkpoint)[0].eval().pair)
    except ValueError as error:
        raise DataError(f"parts are switched off in the weights of a model, which are missing: {error}") from None
    parts = {WHOLE: pair} | {name: _without(pair, off) for name, off in list_switches(pair).items()}
    found = [
        _measure_kind(runtime, parts, Examined(runtime, add_odd_copies(planted), begin(planted.kind)))
        for planted in (open_planted(kind, folder, directory / "sets") for kind in kinds)
    ]
    return {
        "model": runtime.name,
        "revision": runtime.manifest.revision,
        "kinds": list(kinds),
        "parts": {
            name: {
                way: _summarise_losses([getattr(one, way) for one in found], name)
                for way in ("alone", "shown")
                if name in getattr(found[0], way)
            }
            for name in found[0].shown
        },
    }


@torch.no_grad()
def _without(pair: PairPart, switch_off: SwitchOff) -> PairPart:
    changed = copy.deepcopy(pair)
    switch_off(changed)
    return changed


def _measure_kind(runtime: Runtime, parts: Mapping[str, nn.Module], examined: Examined) -> _Rankings:
    pairs = look_closer(examined)
    rng, verification = np.random.default_rng(0), runtime.verification
    assert verification is not None
    others = np.flatnonzero(~pairs.copies)
    kept = np.sort(np.concatenate([np.flatnonzero(pairs.copies), rng.permutation(others)[:OTHERS]]))
    found, seen, looked = pairs.found[kept], [pairs.seen[place] for place in kept.tolist()], pairs.has_look[kept]
    families, copies = name_families(examined.planted.names, found), pairs.copies[kept]

    def rank(scores: np.ndarray) -> dict[str, Ranking]:
        ranked = {}
        for family in ("all", *sorted({*families[copies].tolist()} - {""})):
            which = np.ones(len(copies), bool) if family == "all" else ~copies | (families == family)
            owner = np.unique(found[which, 1], return_inverse=True)[1]
            ranked[family] = Ranking(scores[which], copies=copies[which], owner=owner)
        return ranked

    relevance = {
        name: runtime.relevance(_relate(part, examined.panels.tokens, found, runtime.column)).astype(np.float64)
        for name, part in parts.items()
    }
    shown = {name: rank(verification.shown_relevance(own, seen, looked)) for name, own in relevance.items()}
    shown["closer look"] = rank(relevance[WHOLE])
    for name, change in LOOKS.items():
        less = [None if one is None else change(one) for one in seen]
        shown[name] = rank(verification.shown_relevance(relevance[WHOLE], less, looked))
    return _Rankings({name: rank(own) for name, own in relevance.items()}, shown)


@torch.inference_mode()
def _relate(pair: nn.Module, tokens: np.ndarray, pairs: np.ndarray, column: int) -> np.ndarray:
    """The logits float32 (P,) of pairs int64 (P, 2) of places among the tokens."""
    given = torch.from_numpy(tokens.astype(np.float32))
    parts = [pair(*given[torch.from_numpy(batch.T)]) for batch in np.array_split(pairs, -(-len(pairs) // _BATCH))]
    return torch.cat(parts).reshape(len(pairs), -1)[:, column].numpy()


def _summarise_losses(kinds: Sequence[Mapping[str, Mapping[str, Ranking]]], name: str) -> dict[str, Any]:
    """The mean precision with a part off, and for each family of edits what it loses, [mean, low, high]."""
    rng, losses = np.random.default_rng(0), {}
    for family in dict.fromkeys(family for one in kinds for family in one[name]):
        both = [(one[WHOLE][family], one[name][family]) for one in kinds if family in one[name]]

        def lose(draw: bool, both: Sequence[tuple[Ranking, Ranking]] = both) -> float:
            found = []
            for whole, less in both:
                owners = np.arange(whole.owners)
                found.append(whole.gain_over(less, rng.choice(owners, len(owners)) if draw else owners))
            return float(np.nan_to_num(found).mean())  # where no copy was drawn nothing is lost

        low, high = np.percentile([lose(True) for _ in range(_DRAWS)], [2.5, 97.5])
        losses[family] = [lose(False), float(low), float(high)]
    return {"precision": float(np.mean([one[name]["all"].precision() for one in kinds])), "loss": losses}


def parts_text(result: Mapping[str, Any]) -> str:
    """A table: a line a part, what is lost without it alone and as shown, and of each family of edits as shown."""
    whole = result["parts"][WHOLE]
    families = [family for family in whole["shown"]["loss"] if family != "all"]

    def cell(loss: Sequence[float]) -> str:
        value, low, high = loss
        return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"

    rows = []
    for name, row in result["parts"].items():
        if name != WHOLE:
            alone = cell(row["alone"]["loss"]["all"]) if "alone" in row else "-"
            rows.append([name, alone, *(cell(row["shown"]["loss"][family]) for family in ("all", *families))])
    head = ["off", "network alone loses", "as shown loses", *(f"{family} copies" for family in families)]
    return (
        f"{format_table(head, rows)}\n"
        f"mean average precision with all parts: {whole['alone']['precision']:.3f} by the network alone, "
        f"{whole['shown']['precision']:.3f} as shown; model {result['model']} {result['revision']}"
    )
