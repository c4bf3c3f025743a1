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


def save_vectors(directory: Path, vectors: Vectors, facts: Mapping[str, Any]) -> None:
    """Write the vectors and then the manifest of `facts`. Raises OSError if the disk does not take them."""
    path = directory / CACHE
    # A kill between the two leaves a manifest whose digest is not that of the vectors: the cache is then made anew.
    with replacing_stream(path, path.with_name(f".{CACHE}.tmp")) as file:
        vectors.write(file)
    manifest = {**facts, "sha256": cache_digest(directory, facts)}
    write_atomic(directory / MANIFEST, json.dumps(manifest, indent=2).encode())


def load_vectors(directory: Path, manifest: Mapping[str, Any]) -> tuple[Vectors | None, str | None]:
    """The vectors, if they and the manifest have its digest and belong together, or else the fault."""
    try:
        if (digest := cache_digest(directory, manifest)) != manifest.get("sha256"):
            return None, f"its checksum is wrong ({digest[:12]}, expected {str(manifest.get('sha256'))[:12]})"
        with open_own(directory / CACHE) as file:
            vectors = Vectors.read(file)
    except (OSError, ValueError) as error:  # the latter of an earlier version, or somebody else wrote it
        return None, f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    different = len(np.unique(vectors.labels()))
    if vectors.dimension != manifest.get("dimension", vectors.dimension):
        return None, f"its vectors have {vectors.dimension} numbers, expected {manifest['dimension']}"
    if len(vectors) != manifest["count"] or different != len(vectors):
        return None, f"it has {len(vectors)} entries and {different} labels, expected {manifest['count']}"
    return vectors, None


def read_manifest(directory: Path) -> tuple[dict[str, Any], str | None]:
    """The cache's manifest and None, or an empty one and its fault."""
    try:
        with open_own(directory / MANIFEST) as file:
            manifest = parse_json(file.read())
    except FileNotFoundError:
        return {}, "it is missing"
    except (OSError, ValueError) as error:
        return {}, f"its manifest cannot be read ({error})"
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), int) for key in _NUMBERS):
        return {}, "its manifest is damaged"
    return manifest, None


def cache_digest(directory: Path, manifest: Mapping[str, Any]) -> str:
    """The digest of the cache and its manifest: a generation too high would leave out changes in the replay."""
    facts = {key: value for key, value in manifest.items() if key != "sha256"}
    with open_own(directory / CACHE) as file:
        found = hashlib.file_digest(file, "sha256")
    found.update(json.dumps(facts, sort_keys=True).encode())
    return found.hexdigest()
