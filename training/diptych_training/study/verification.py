"""`diptych study verification`: collections of many kinds with copies planted in them, what a closer look makes of the
pairs that a model takes for copies, and the weights that make a probability of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from PIL import Image

from diptych_export.commandline import table
from diptych_export.evidence import FEATURES, Evidence, Verification, features
from diptych_export.pictures import panel_pixels
from diptych_export.questions import COPY
from diptych_export.runtime import Runtime
from diptych_export.verification import describe, verify
from diptych_training.calibration import FALSE_POSITIVE_RATES, expected_calibration_error
from diptych_training.documents import draw_documents
from diptych_training.edits import REPERTOIRES, picture_names, write_queries
from diptych_training.errors import DataError
from diptych_training.photos import DOCUMENTS, list_photos, read_photos
from diptych_training.tables import read_table
from diptych_training.whole import whole_folder

ARCHIVES = (
    *("clothing", "flowers", "trashnet", "openimages_doors", "goods", "screens", "cards_coins"),
    *("lookalike_objects", "boofcv_views", "sfm_sets"),
)
KINDS = (*ARCHIVES, DOCUMENTS)
PICTURES, COPIES = 300, 50  # of a kind at most, and how many of them are copied by either repertoire
SIDE = 640  # of a drawn document
SEED = 31
NEAREST = 20  # candidates of each picture
ABOVE = 0.9
PENALTY = 3e-3  # of the squared weights


@dataclass(frozen=True)
class Pairs:
    """Candidate pairs of a kind that the model takes for copies: `relevance` (P,) by the model alone, what was `seen`,
    and whether they are `copies` (P,).

    `rest` counts the candidates that are no copies and that the model did not take for some, `missed` the copies.
    `found` are (P, 2) places in its pictures, of which there are `pictures`.
    """

    kind: str
    pictures: int
    found: np.ndarray
    relevance: np.ndarray
    seen: list[Evidence]
    copies: np.ndarray
    rest: int
    missed: int


def prepare(kind: str, folder: Path, sets: Path) -> Path:
    """Write a kind's pictures and the copies of some into `sets/KIND`, whole or not at all, unless they are there."""
    target = sets / kind
    if target.is_dir():
        return target
    with whole_folder(target) as fresh:
        originals = fresh / "originals"
        originals.mkdir()
        if kind == DOCUMENTS:
            for number, pixels in enumerate(draw_documents(PICTURES, SIDE, SEED)):
                Image.fromarray(pixels).save(originals / f"{number:03d}.png")
        else:
            _write_photos(kind, folder, originals)
        count = min(COPIES, len(picture_names(originals)) // 2)
        for number, repertoire in enumerate(REPERTOIRES):
            write_queries(originals, fresh / repertoire, count=count, seed=SEED + number, repertoire=repertoire)
    return target


def look_closer(
    runtime: Runtime, kind: str, folder: Path, *, above: float = ABOVE, tick: Callable[[int], object] = lambda n: None
) -> Pairs:
    """Find the candidates of every picture of a prepared kind, and look again at those whose relevance is `above`."""
    runtime = runtime.asking(COPY)
    names, originals = _names(folder)
    size = runtime.panel_size
    with ThreadPoolExecutor(runtime.threads) as pool:
        pixels = list(pool.map(lambda name: panel_pixels(folder / name, size), names))
    panels = runtime.encode(np.stack(pixels))
    index = faiss.IndexFlatIP(panels.embeddings.shape[1])
    index.add(panels.embeddings)
    near = index.search(runtime.queries(panels.embeddings), min(NEAREST + 1, len(names)))[1]
    pairs = np.unique(np.sort([(i, j) for i, row in enumerate(near) for j in row if i != j], axis=1), axis=0)
    logits = runtime.pair_logits(panels.tokens[pairs[:, 0]], panels.tokens[pairs[:, 1]])
    lowered = runtime.shifts(pairs, logits, len(names))[pairs].mean(1)
    relevance = runtime.relevance(logits - lowered).astype(np.float64)
    copies = originals[pairs[:, 0]] == originals[pairs[:, 1]]
    taken = relevance >= above
    described = lru_cache(256)(lambda name: describe(folder / name))

    def look(pair: np.ndarray) -> Evidence:
        a, b = (described(names[place]) for place in pair)
        tick(1)
        return verify(a, b)

    with ThreadPoolExecutor(runtime.threads) as pool:
        seen = list(pool.map(look, pairs[taken]))
    planted = sum(len(group) * (len(group) - 1) // 2 for group in _groups(originals))
    return Pairs(
        kind,
        len(names),
        pairs[taken],
        relevance[taken],
        seen,
        copies[taken],
        rest=int((~copies & ~taken).sum()),
        missed=planted - int((copies & taken).sum()),
    )


def fit_verification(sets: Sequence[Pairs], above: float = ABOVE) -> Verification:
    """Fit the weights by log-loss, every kind and within all of them copies and others weighing the same, and the
    thresholds that each rate allows among all candidates of a kind that are no copies, a mean over kinds.
    """
    x = np.concatenate([features(pairs.relevance, pairs.seen) for pairs in sets])
    labels = np.concatenate([pairs.copies for pairs in sets])
    weight = np.zeros(len(labels))
    kinds = np.repeat(np.arange(len(sets)), [len(pairs.copies) for pairs in sets])
    for label in (True, False):
        chosen = labels == label
        counts = np.bincount(kinds[chosen], minlength=len(sets))
        weight[chosen] = 0.5 / ((counts > 0).sum() * counts[kinds[chosen]])
    fitted = _logistic(x, labels, weight)
    plain = Verification(above, dict(zip(FEATURES, fitted.tolist(), strict=True)))
    others = [np.sort(plain.relevance(pairs.relevance, pairs.seen)[~pairs.copies])[::-1] for pairs in sets]
    totals = [len(known) + pairs.rest for known, pairs in zip(others, sets, strict=True)]
    thresholds = {}
    for rate in FALSE_POSITIVE_RATES:
        bar = _threshold(others, totals, rate)
        if bar is not None:
            thresholds[str(rate)] = bar
    return Verification(above, plain.weights, thresholds)


def _threshold(others: Sequence[np.ndarray], totals: Sequence[int], rate: float) -> float | None:
    """The lowest score that on the mean over kinds a share `rate` of others reaches; None where there are too few."""
    if rate * sum(totals) < 1:
        return None
    scores = np.concatenate(others)
    shares = np.repeat([1 / total / len(totals) for total in totals], [len(known) for known in others])
    order = np.argsort(-scores, kind="stable")
    above = np.cumsum(shares[order])
    place = int(np.searchsorted(above, rate, side="right"))
    # What is just above the first score that is one too many.
    return float(np.nextafter(scores[order][place], 1)) if place < len(scores) else None


def _logistic(x: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weights (F,) of a logistic regression by Newton's method, with a penalty on all but the first."""
    weights, penalty = np.zeros(x.shape[1]), np.eye(x.shape[1]) * PENALTY
    penalty[0, 0] = 1e-6
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -60, 60)))
        gradient = x.T @ (weight * (p - labels)) + penalty @ weights
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + penalty
        step = np.linalg.solve(hessian, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def study_verification(
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """Look closer in every kind, fit `verification` to all, and say of each what one fitted to the others finds."""
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise DataError(f"there is no kind {unknown[0]!r}: kinds are {', '.join(KINDS)}")
    sets = [look_closer(runtime, kind, prepare(kind, folder, directory / "sets"), tick=begin(kind)) for kind in kinds]
    fitted = fit_verification(sets)
    rows = [row(fit_verification([other for other in sets if other is not one]), one) for one in sets]
    return {
        "model": runtime.name,
        "revision": runtime.revision,
        "verification": asdict(fitted),
        "kinds": rows,
    }


def save_verification(result: Mapping[str, Any], checkpoint: Path) -> None:
    """Write what was fitted into a checkpoint's metadata, from where its next export takes it. Raises `DataError` for
    one that does not know of copies.
    """
    from diptych_model import load_checkpoint, save_checkpoint

    network, metadata = load_checkpoint(checkpoint)
    if COPY not in metadata.get("questions", {}):
        raise DataError(f"{checkpoint} has no calibrated question {COPY!r} that a closer look could belong to")
    metadata["questions"][COPY]["verification"] = result["verification"]
    save_checkpoint(network, checkpoint, metadata)


def row(verification: Verification, pairs: Pairs) -> dict[str, Any]:
    """What a verification fitted to other kinds finds in this one at its thresholds: the share of the copies, and the
    share of pictures that are taken for a copy of another.
    """
    relevance = verification.relevance(pairs.relevance, pairs.seen)
    planted = int(pairs.copies.sum()) + pairs.missed
    at = {}
    for rate, bar in verification.thresholds.items():
        passed = relevance >= bar
        wrong = np.unique(pairs.found[passed & ~pairs.copies])
        found = int((passed & pairs.copies).sum())
        at[rate] = {"found": found / max(planted, 1), "wrong_pictures": len(wrong) / pairs.pictures}
    both = [(values, expected_calibration_error(values, pairs.copies)) for values in (pairs.relevance, relevance)]
    return {
        "kind": pairs.kind,
        "pictures": pairs.pictures,
        "copies": planted,
        "looked_at": len(pairs.copies),
        "others_looked_at": int((~pairs.copies).sum()),
        "ece_before": both[0][1],
        "ece": both[1][1],
        "at": at,
    }


def verification_text(result: Mapping[str, Any]) -> str:
    """The kinds as a table, each with a closer look that was fitted to the others."""
    rates = list(result["verification"]["thresholds"])
    head = ["kind", "pictures", "copies", "looked at", "ECE before", "after"]
    head += [f"{what} at {rate}" for rate in rates for what in ("found", "wrong pictures")]
    lines = []
    for one in result["kinds"]:
        figures = [one["at"].get(rate) for rate in rates]
        cells = [one["kind"], one["pictures"], one["copies"], one["looked_at"]]
        cells += [f"{one['ece_before']:.3f}", f"{one['ece']:.3f}"]
        for figure in figures:
            cells += [f"{figure['found']:.3f}", f"{figure['wrong_pictures']:.3f}"] if figure else ["-", "-"]
        lines.append(cells)
    return f"{table(head, lines)}\nmodel {result['model']} {result['revision']}"


def _write_photos(kind: str, folder: Path, target: Path) -> None:
    """Pictures that training has not seen where there are enough, drawn with the seed."""
    photos = list_photos(folder, [kind])
    held_out = [photo for photo in photos if photo.split != "train"]
    chosen = held_out if len(held_out) >= PICTURES else photos
    order = np.random.default_rng(SEED).permutation(len(chosen))[:PICTURES]
    ordered = [chosen[place] for place in sorted(order)]
    for number, (photo, data) in enumerate(zip(ordered, read_photos(folder, ordered), strict=True)):
        (target / f"{number:03d}{Path(photo.name).suffix.lower()}").write_bytes(data)


def _names(folder: Path) -> tuple[list[str], np.ndarray]:
    """The pictures of a prepared kind below its folder, and for each a number that it shares with its copies."""
    originals = [f"originals/{name}" for name in picture_names(folder / "originals")]
    number = {name: place for place, name in enumerate(originals)}
    names, of = list(originals), list(range(len(originals)))
    for repertoire in REPERTOIRES:
        for line in read_table(folder / repertoire / "truth.csv", ["query", "reference"]):
            names.append(f"{repertoire}/{line['query']}")
            of.append(number[f"originals/{line['reference']}"])
    return names, np.array(of)


def _groups(originals: np.ndarray) -> Iterable[np.ndarray]:
    return (np.flatnonzero(originals == one) for one in np.unique(originals))
