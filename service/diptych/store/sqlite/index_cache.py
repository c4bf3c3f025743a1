"""The candidate index on the disk: a cache and a manifest, each replaced in one step, that carry one SHA-256.

Flipped bits would be searched without a word, so nothing is read before its digest was found right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diptych.store.sqlite.vectors import Vectors
from diptych_runtime.atomic import replacing_stream, write_atomic
from diptych_runtime.own_files import open_own
from diptych_runtime.parsing import parse_json

CACHE = "candidates.faiss"
MANIFEST = "candidates.json"
_NUMBERS = ("generation", "count")


class CacheFaultError(Exception):
    """The reason for which the cache cannot be used."""


def save_vectors(directory: Path, vectors: Vectors, facts: Mapping[str, Any]) -> None:
    """Write the vectors and then the manifest of `facts`. Raises OSError if the disk does not take them."""
    path = directory / CACHE
    # A kill between the two leaves a manifest whose digest is not that of the vectors: the cache is then made anew.
    with replacing_stream(path, path.with_name(f".{CACHE}.tmp")) as file:
        vectors.write(file)
    manifest = {**facts, "sha256": cache_digest(directory, facts)}
    write_atomic(directory / MANIFEST, json.dumps(manifest, indent=2).encode())


def load_vectors(directory: Path, manifest: Mapping[str, Any]) -> Vectors:
    """The vectors, if they and the manifest have its digest and belong together. Raises CacheFaultError."""
    try:
        if (digest := cache_digest(directory, manifest)) != manifest.get("sha256"):
            expected = str(manifest.get("sha256"))[:12]
            raise CacheFaultError(f"its checksum is wrong ({digest[:12]}, expected {expected})")
        with open_own(directory / CACHE) as file:
            vectors = Vectors.read(file)
    except (OSError, ValueError) as error:  # the latter of an earlier version, or somebody else wrote it
        raise CacheFaultError(f"it cannot be read ({getattr(error, 'strerror', None) or error})") from None
    different = len(np.unique(vectors.labels()))
    if vectors.dimension != manifest.get("dimension", vectors.dimension):
        raise CacheFaultError(f"its vectors have {vectors.dimension} numbers, expected {manifest['dimension']}")
    if len(vectors) != manifest["count"] or different != len(vectors):
        entries = f"{len(vectors)} entries and {different} labels"
        raise CacheFaultError(f"it has {entries}, expected {manifest['count']}")
    return vectors


def read_manifest(directory: Path) -> dict[str, Any]:
    """The cache's manifest. Raises CacheFaultError."""
    try:
        with open_own(directory / MANIFEST) as file:
            manifest = parse_json(file.read())
    except FileNotFoundError:
        raise CacheFaultError("it is missing") from None
    except (OSError, ValueError) as error:
        raise CacheFaultError(f"its manifest cannot be read ({error})") from None
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), int) for key in _NUMBERS):
        raise CacheFaultError("its manifest is damaged")
    return manifest


def cache_digest(directory: Path, manifest: Mapping[str, Any]) -> str:
    """The digest of the cache and its manifest: a generation too high would leave out changes in the replay."""
    facts = {key: value for key, value in manifest.items() if key != "sha256"}
    with open_own(directory / CACHE) as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(json.dumps(facts, sort_keys=True).encode())
    return found.hexdigest()
