"""`diptych doctor`: what this installation is, what it runs on, and whether it is well."""

from __future__ import annotations

import os
import platform
import timeit
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.cli import options
from diptych.command_tree import Json, Quiet
from diptych.console import Console, format_count
from diptych.store.location import Location
from diptych_runtime.errors import ArtifactError, DiptychError

if TYPE_CHECKING:
    from diptych.scoring.scorer import Scorer

_RUNTIMES = ("onnxruntime", "onnxruntime-gpu")
_PACKAGES = ("diptych", *_RUNTIMES, "faiss-cpu", "numpy", "pillow", "fastapi", "uvicorn", "pyarrow")
_PAIRS = 16


def doctor(
    store: options.AnyStore = None,
    collections: options.Collections = None,
    model: options.Model = "photo",
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Check this installation: versions, providers, models, speed and collections.

    Exits with 1 if something is damaged or does not run.
    """
    from diptych.pictures.sources import picture_limits
    from diptych_runtime.decoder import FORMATS
    from diptych_runtime.models import bundled_models

    options.check_one_of({"--store (or DIPTYCH_STORE)": store, "--collections": collections})
    store = options.named_or_default(store, collections)
    problems: list[str] = []
    report: dict[str, Any] = {
        "versions": find_versions(),
        "threads": thread_facts(),
        "limits": {**asdict(picture_limits()), "formats": list(FORMATS)},
        "models": [_try_inspection(problems, lambda name=name: inspect_model(name)) for name in bundled_models()],
        "runtime": _try_inspection(problems, lambda: measure_speed(options.open_scorer(model, provider, threads))),
        "store": None if store is None else _try_inspection(problems, lambda: inspect_store(store, problems)),
        "collections": collections and _try_inspection(problems, lambda: inspect_root(collections, problems)),
    }
    both = [name for name in _RUNTIMES if report["versions"][name]]
    if len(both) != 1:
        found = " and ".join(both) or "neither"
        problems.append(
            f"exactly one of onnxruntime and onnxruntime-gpu must be installed, found {found}; uninstall both, then "
            "`pip install 'diptych[cpu]'` or `pip install 'diptych[gpu]'`"
        )
    report["problems"] = problems
    Console(as_json, quiet).emit(report, _format_report(report))
    return 1 if problems else 0


def find_versions() -> dict[str, str | None]:
    """Find the versions of Python, SQLite and the packages; None for one not installed."""
    import sqlite3

    found: dict[str, str | None] = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def thread_facts() -> dict[str, Any]:
    """The number of threads, and the reason for it."""
    from diptych_runtime.session import cgroup_quota, thread_count

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    used = thread_count()
    reason = "the cores this process may run on" if used == allowed else "the CPU quota of its control group"
    return {
        "used": used,
        "reason": reason,
        "host_cores": os.cpu_count(),
        "allowed_cores": allowed,
        "quota": cgroup_quota(),
    }


def inspect_model(name: str) -> dict[str, Any]:
    """A bundled model, after its files were compared with their digests. Raises ArtifactError."""
    from diptych_runtime.manifest import Manifest
    from diptych_runtime.models import find_artifact

    directory = find_artifact(name)
    manifest = Manifest.load(directory)
    for file in manifest.digests:
        manifest.read_checked(directory, file)
    questions = {name: asdict(question) for name, question in manifest.questions.items()}
    return {"name": manifest.name, "revision": manifest.revision, "files": [*manifest.digests], "questions": questions}


def measure_speed(scorer: Scorer) -> dict[str, Any]:
    """Measure milliseconds for one picture and for one pair among sixteen. Raises ArtifactError."""
    import numpy as np
    import onnxruntime

    runtime = scorer.runtime
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (_PAIRS, runtime.panel_size, runtime.panel_size, 3), np.uint8)
    tokens = scorer.encode_pixels(pixels).tokens
    forward = scorer.logits(tokens, tokens[::-1])
    if not np.array_equal(forward, scorer.logits(tokens[::-1], tokens)):
        raise ArtifactError(f"the order of two pictures changes the score of {runtime.name}; export the model again")
    return {
        "model": runtime.name,
        "revision": runtime.revision,
        "provider": runtime.provider,
        "provider_reason": runtime.provider_reason,
        "available_providers": onnxruntime.get_available_providers(),
        "attention_path": runtime.attention_path,
        "pair_path": runtime.pair_path,
        "threads": runtime.threads,
        "panel_ms": _time_best(lambda: scorer.encode_pixels(pixels)) / _PAIRS,
        "pair_ms": _time_best(lambda: scorer.logits(tokens, tokens[::-1])) / _PAIRS,
    }


def inspect_store(where: Location, problems: list[str]) -> dict[str, Any]:
    """Counts and health of a collection; faults are added to `problems`. Raises StoreError."""
    from diptych.store.open import open_store

    with open_store(where, read_only=True) as store:
        verdict = store.verify()
        index = store.index_facts()
        found = {**store.stats(), "index": index, "healthy": verdict.healthy, "remarks": verdict.remarks}
    problems += [f"{where}: {text}" for text in verdict.problems]
    return found


def inspect_root(root: Path, problems: list[str]) -> dict[str, Any]:
    """`inspect_store` of every collection of a root, by name; None for a damaged one. Raises StoreError."""
    from diptych.collection.root import collections_in

    return {
        name: _try_inspection(problems, lambda folder=root / name: inspect_store(folder, problems))
        for name in collections_in(root)
    }


def _try_inspection(problems: list[str], inspect: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return inspect()
    except DiptychError as error:
        problems.append(str(error))
        return None


def _time_best(work: Callable[[], object]) -> float:
    """The milliseconds of the best of three rounds, which was disturbed least."""
    return round(1000 * min(timeit.repeat(work, number=1, repeat=3)), 3)


def _format_report(report: dict[str, Any]) -> str:
    limits, threads, runtime = report["limits"], report["threads"], report["runtime"]
    cores = f"host {threads['host_cores']}, allowed {threads['allowed_cores']}, quota {threads['quota'] or 'none'}"
    sizes = f"{limits['bytes'] / 2**20:.0f} MiB, {limits['pixels'] / 1e6:.0f} megapixels"
    models = [f"{model['name']} ({model['revision']}, digests right)" for model in report["models"] if model]
    lines = [
        ("versions", ", ".join(f"{name} {found or 'not installed'}" for name, found in report["versions"].items())),
        ("threads", f"{threads['used']}: {threads['reason']} ({cores})"),
        ("limits", f"{sizes}, sides from {limits['side']} pixels; {', '.join(limits['formats'])}"),
        ("models", ", ".join(models) or "none bundled"),
    ]
    if runtime:
        speed = f"{runtime['panel_ms']:.2f} ms a picture, {runtime['pair_ms']:.2f} ms a pair"
        lines += [
            ("provider", f"{runtime['provider']} ({runtime['provider_reason']})"),
            ("attention", runtime["attention_path"]),
            ("pairs", runtime["pair_path"]),
            ("speed", f"{runtime['model']}: {speed}"),
        ]
    for store in filter(None, [report["store"], *(report["collections"] or {}).values()]):
        pictures = format_count(store["pictures"], "picture")
        lines.append(("store", f"{store['directory']}: {pictures}; index {store['index']['kind']}"))
        lines += [("", text) for text in store["remarks"]]
    lines += [("problem", text) for text in report["problems"]]
    end = [] if report["problems"] else ["all is well"]
    return "\n".join([*(f"{name:10} {text}" for name, text in lines), *end])
