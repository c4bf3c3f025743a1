"""Broken pictures for a running service: `python tests/endurance/fuzz.py --minutes 60 --keep crashes`.

Whole pictures of every format and kind are mutated (bits, bytes, lengths, pieces cut out, doubled or taken from another
format, PNG checksums made right again) and sent to `/v1/embeddings`. Each must be answered in time with 200 or with 422
and the decoder's word for it; a decoder process that ended is a crash. What did wrong is kept in a folder.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import math
import random
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
import pillow_heif
from PIL import Image
from served import run_service

from diptych import Collection, Scorer

TIME = 20.0  # the decoder has 10
PNG = b"\x89PNG\r\n\x1a\n"
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
REFUSALS = {"invalid_picture", "decoding_time", "decoding_memory"}


def whole() -> list[bytes]:
    """Small pictures of every format, mode and compression that is read."""
    pillow_heif.register_heif_opener()
    rng = np.random.default_rng(0)
    rgb = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize((64, 48))
    grey, alpha = rgb.convert("L"), rgb.convert("RGBA")
    deep = Image.fromarray(np.asarray(grey, np.uint16) * 257)
    frames = [rgb.rotate(90 * turn).resize((64, 48)) for turn in range(3)]
    kinds: list[tuple[Image.Image, str, dict]] = [
        *((rgb, "JPEG", {"quality": 80, **options}) for options in ({}, {"progressive": True}, {"subsampling": 0})),
        *((rgb.convert(mode), "JPEG", {}) for mode in ("L", "CMYK", "YCbCr")),
        *((rgb.convert(mode), "PNG", {}) for mode in ("RGB", "RGBA", "L", "LA", "P", "1")),
        (deep, "PNG", {}),
        (rgb, "WEBP", {"quality": 70}),
        (alpha, "WEBP", {"lossless": True}),
        *((rgb, form, {"save_all": True, "append_images": frames}) for form in ("WEBP", "GIF", "PNG", "TIFF")),
        *((picture, form, {}) for form in ("AVIF", "HEIF") for picture in (rgb, alpha)),
        (rgb, "GIF", {}),
        *((rgb.convert(mode), "BMP", {}) for mode in ("RGB", "L", "P", "1")),
        *(
            (rgb, "TIFF", {"compression": name})
            for name in (None, "tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
        ),
        *((rgb.convert("1"), "TIFF", {"compression": name}) for name in ("group3", "group4")),
        (deep, "TIFF", {}),
    ]
    made = []
    for picture, form, options in kinds:
        buffer = BytesIO()
        picture.save(buffer, form, **options)
        made.append(buffer.getvalue())
    return made


def mutated(data: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """Some few changes of a picture, nearer to its head than to its end."""
    work = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        if len(work) < 8:
            break
        place = min(int(len(work) * draw.random() ** draw.choice((1, 3))), len(work) - 1)
        length = min(draw.choice((1, 2, 4, 8, 64, 512)), len(work) - place)
        match draw.randrange(8):
            case 0:
                work[place] ^= 1 << draw.randrange(8)
            case 1:
                work[place : place + length] = draw.randbytes(length)
            case 2:
                form = draw.choice(("<H", ">H", "<I", ">I"))
                size = struct.calcsize(form)
                work[place : place + size] = struct.pack(form, draw.choice(NUMBERS) & (256**size - 1))
            case 3:
                del work[place : place + length]
            case 4:
                work[place:place] = work[place : place + length] * draw.choice((1, 2, 50))
            case 5:
                del work[place:]
            case 6:
                other = draw.choice(others)
                begin = draw.randrange(len(other))
                work[place : place + length] = other[begin : begin + length * draw.choice((1, 8))]
            case 7:
                work[place] = draw.choice((0, 0xFF))
    return sealed(bytes(work)) if work.startswith(PNG) and draw.random() < 0.7 else bytes(work)


def sealed(data: bytes) -> bytes:
    """A PNG whose chunks have the checksums of what is in them now."""
    made, place = bytearray(data[:8]), 8
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        end = place + 8 + length
        if end + 4 > len(data):
            break
        body = data[place + 4 : end]
        made += data[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
        place = end + 4
    return bytes(made + data[place:])


@dataclass
class Account:
    """How often which answer came, and what was wrong."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


def fuzz(port: int, number: int, seed: int, until: float, pictures: float, account: Account, keep: Path) -> None:
    """One client: draws, sends and judges, until the time is over or all clients together have sent so many."""
    draw, seeds = random.Random(f"{seed} {number}"), whole()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIME)
    while time.monotonic() < until and len(account.wrong) < 20 and account.answers.total() < pictures:
        data = mutated(draw.choice(seeds), seeds, draw)
        began = time.monotonic()
        try:
            verdict, right = judged(connection, data)
        except (OSError, http.client.HTTPException) as error:
            verdict, right = f"no answer: {type(error).__name__}", False
            connection.close()
        took = time.monotonic() - began
        account.slowest = max(account.slowest, took)
        account.answers[verdict] += 1
        if not right or took > TIME:
            name = hashlib.sha256(data).hexdigest()[:16]
            keep.mkdir(parents=True, exist_ok=True)
            (keep / name).write_bytes(data)
            account.wrong.append(f"{name}: {verdict}, {took:.1f} s")
    connection.close()


def judged(connection: http.client.HTTPConnection, data: bytes) -> tuple[str, bool]:
    """What was answered, and whether a service may answer that."""
    body = json.dumps({"input": [{"image": base64.b64encode(data).decode()}]})
    connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = json.loads(answer.read())
    if answer.status == 200:
        vector = np.array(said["data"][0]["embedding"])
        return "200", bool(np.isfinite(vector).all()) and abs(float(np.linalg.norm(vector)) - 1) < 1e-3
    code = said["error"]["code"]
    return f"{answer.status} {code}", answer.status == 422 and code in REFUSALS


def run(model: str, minutes: float, pictures: float, clients: int, seed: int, keep: Path) -> Account:
    """Fuzz a service of one's own; returns what happened."""
    account = Account()
    with tempfile.TemporaryDirectory() as folder:
        store, scorer = Path(folder, "store"), Scorer.load(model, threads=1)
        Collection.open(store, scorer, create=True).close()
        with run_service(store, model, 2) as (port, process):
            until = time.monotonic() + 60 * minutes
            threads = [
                threading.Thread(target=fuzz, args=(port, number, seed, until, pictures, account, keep))
                for number in range(clients)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if process.poll() is not None:
                account.wrong.append(f"the service ended with {process.returncode}")
    return account


def report(account: Account) -> Iterator[str]:
    """What happened, line by line."""
    for verdict, count in account.answers.most_common():
        yield f"{verdict:32} {count:10,}"
    yield f"{'slowest':32} {account.slowest:9.2f}s"
    yield f"{'wrong':32} {len(account.wrong):10,}"
    yield from account.wrong


def main() -> int:
    """Fuzz, print, and say whether all was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="photo-small")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pictures", type=int, default=math.inf, help="end after so many")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzzed"), help="where to keep what did wrong")
    args = parser.parse_args()
    account = run(args.model, args.minutes, args.pictures, args.clients, args.seed, args.keep)
    print("\n".join(report(account)))
    return bool(account.wrong)


if __name__ == "__main__":
    sys.exit(main())
