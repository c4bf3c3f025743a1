"""The peers that `diptych bench` measures beside the model: other ways to score a pair of pictures.

A peer reads a picture once, and relates a query to one candidate or to many. Late interaction takes many at a time, as
we do; the others take pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import cv2
import numpy as np

from diptych.bench.graphs import open_yardstick
from diptych_runtime.decoder import open_picture, panel_pixels
from diptych_runtime.manifest import Manifest

OURS = "diptych"
PEERS = {
    "late": "late interaction over the same tokens",
    "sift": "SIFT, 1,000 keypoints, and RANSAC (OpenCV)",
    "cnn": "ResNet-18 over both pictures, 6 channels at 224 pixels; random weights",
    "vit-s16": "ViT-S/16 over both pictures side by side at 224 pixels; random weights",
}
COUNTS = (1, 32, 100)  # candidates
SIDE, KEYPOINTS, RATIO, REPROJECTION, PIXELS = 480, 1000, 0.8, 5.0, 224

Work = Callable[[], object]


class Keypoints(NamedTuple):
    """Places float32 (P, 2), x and y in pixels, and descriptors float32 (P, 128); P may be 0."""

    places: np.ndarray
    descriptors: np.ndarray


def list_comparable(manifest: Manifest) -> list[str]:
    """List the peers to measure beside a model: not `late` where the only tokens are pixels."""
    return [name for name in PEERS if name != "late" or not manifest.literal]


def make_works(name: str, files: Sequence[bytes], tokens: np.ndarray, threads: int) -> dict[str, Work]:
    """The work of a peer by name: `NAME N` relates a query to N candidates, `NAME read` reads a picture.

    `files` are pictures, `tokens` float16 (P, N, M, d) those of the model for a query and at least 100 candidates.
    """
    if name == "late":
        session, unit = open_yardstick("late", threads), normalise_tokens(tokens)
        # The tokens are the model's, so a picture costs what it costs the model.
        return {
            f"late {count}": lambda count=count: session.run(None, {"a": unit[:1], "b": unit[1 : count + 1]})
            for count in COUNTS
        }
    if name == "sift":
        cv2.setNumThreads(threads)
        query, *candidates = [find_keypoints(file) for file in files]
        nexts = cycle(candidates)  # some pictures have more keypoints than others
        return {"sift read": lambda: find_keypoints(files[0]), "sift 1": lambda: count_inliers(query, next(nexts))}
    session = open_yardstick({"cnn": "cnn_pair", "vit-s16": "vit_s16_pair"}[name], threads)
    query, candidate = (channels_first(file) for file in files[:2])
    pair = np.concatenate([query, candidate], 1 if name == "cnn" else 3)
    return {
        f"{name} read": lambda: channels_first(files[0]),
        f"{name} 1": lambda: session.run(None, {"pixels": pair}),
    }


def cost_candidates(milliseconds: Mapping[str, float]) -> dict[str, dict[str, dict[str, float]]]:
    """The milliseconds a candidate by peer, ours first, for each of `COUNTS`, from those of the works.

    `stored`: the candidates have been read before, the query is read once for all of them. `files`: all are read anew.
    """
    found = {}
    for name in (OURS, *PEERS):
        if f"{name} 1" not in milliseconds:
            continue
        read = milliseconds.get(f"{name} read", milliseconds[f"{OURS} read"])
        stored, files = {}, {}
        for count in COUNTS:
            # Pair by pair so many candidates cost so many times one.
            related = milliseconds.get(f"{name} {count}", count * milliseconds[f"{name} 1"])
            stored[str(count)] = (read + related) / count
            files[str(count)] = ((count + 1) * read + related) / count
        found[name] = {"stored": stored, "files": files}
    return found


def find_keypoints(file: bytes) -> Keypoints:
    """SIFT's keypoints of a picture of 480 pixels on its longer side."""
    grey = open_picture(file).convert("L")
    grey.thumbnail((SIDE, SIDE))
    found, descriptors = cv2.SIFT.create(nfeatures=KEYPOINTS).detectAndCompute(np.asarray(grey), None)  # type: ignore[call-overload]
    if descriptors is None:
        return Keypoints(np.empty((0, 2), np.float32), np.empty((0, 128), np.float32))
    return Keypoints(np.array([point.pt for point in found], np.float32), descriptors)


def count_inliers(query: Keypoints, candidate: Keypoints) -> int:
    """The matches, by Lowe's ratio test in both directions, that one homography explains."""
    if min(len(query.places), len(candidate.places)) < 4:
        return 0
    there, back = (_match_keypoints(*pair) for pair in ((query, candidate), (candidate, query)))
    mutual = [(a, b) for a, b in there.items() if back.get(b) == a]
    if len(mutual) < 4:
        return 0
    asked, answered = np.array(mutual).T
    _, found = cv2.findHomography(query.places[asked], candidate.places[answered], cv2.RANSAC, REPROJECTION)
    return 0 if found is None else int(found.sum())


def channels_first(file: bytes) -> np.ndarray:
    """A picture as float32 (1, 3, 224, 224) in [0, 1]."""
    pixels = panel_pixels(file, PIXELS)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)[None] / 255


def normalise_tokens(tokens: np.ndarray) -> np.ndarray:
    """Tokens (P, N, M, d) as unit vectors, float16 (P, N * M, d)."""
    flat = tokens.reshape(len(tokens), -1, tokens.shape[-1]).astype(np.float32)
    return (flat / np.maximum(np.linalg.norm(flat, axis=-1, keepdims=True), 1e-12)).astype(np.float16)


def _match_keypoints(a: Keypoints, b: Keypoints) -> dict[int, int]:
    found: Any = cv2.BFMatcher(cv2.NORM_L2).knnMatch(a.descriptors, b.descriptors, 2)
    return {near.queryIdx: near.trainIdx for near, second in found if near.distance < RATIO * second.distance}
