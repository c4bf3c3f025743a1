"""The OpenAPI document held to the service: `python tests/endurance/contract.py --minutes 30 [--keys]`.

Schemathesis asks `diptych serve` for what the document allows, which must be answered as it says, and for what it does
not allow, which must be refused. This file is its hooks file too: it says what the formats of the document look like.
With `--keys` the service is closed: every request carries the key of an admin, and without it must be refused.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonschema_rs
import schemathesis
from hypothesis import strategies as st
from PIL import Image, UnidentifiedImageError
from schemathesis.transport.serialization import contains_binary
from served import run_service

from diptych import Scorer
from diptych.collection.registry import Collections
from diptych.http.middleware.auth import key_line, new_key

NAMES = ("default", "shoes")  # collections that stay
STORED = "DIPTYCH_CONTRACT_STORED"  # ids of pictures that stay, for the hooks


def drawn(colour: int) -> bytes:
    """A small picture, another for every colour."""
    file = BytesIO()
    Image.new("RGB", (24, 16), (colour, 255 - colour, colour // 2)).save(file, "PNG")
    return file.getvalue()


def sent(colour: int, *, bare: bool) -> str:
    """A picture as a request has it."""
    text = base64.b64encode(drawn(colour)).decode()
    return text if bare else f"data:image/png;base64,{text}"


if STORED in os.environ:
    kept: list[str] = json.loads(os.environ[STORED])
    schemathesis.openapi.format("image", st.builds(sent, st.integers(100, 110), bare=st.booleans()))
    schemathesis.openapi.format("image-id", st.sampled_from(kept))
    schemathesis.openapi.format("binary", st.integers(100, 110).map(drawn))

    @schemathesis.hook
    def map_path_parameters(context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        """No picture that others are to find is removed, and no collection that they are in."""
        if parameters and context.operation.method == "delete":
            other = {"id": "0" * 32, "name": "elsewhere"}
            return {key: other[key] if value in (*kept, *NAMES) else value for key, value in parameters.items()}
        return parameters

    @schemathesis.hook
    def filter_body(context: Any, body: Any) -> bool:
        """What Schemathesis cannot judge in a form with a file, as it cannot hold that to the document.

        A list is not wrong that has one element, which is sent as itself, or none, which is not sent; a filter is not
        wrong if a number in it was exchanged for null; and null is sent as the text "null", which any text may be, as
        numbers and whatever else is sent in place of a name, of which any will do, are. And no schema can say that
        there are as many queries as documents, or one of either.
        """
        if not isinstance(body, dict) or not contains_binary(body):
            return True
        named = isinstance(body.get("user", ""), str)
        counts = {len(files) for name in ("queries", "documents") if isinstance(files := body.get(name), list)}
        return (
            named
            and len(counts - {1}) < 2
            and "filter" not in body
            and not any(field is None or (isinstance(field, list) and len(field) < 2) for field in body.values())
        )

    def is_picture(text: str) -> bool:
        """Whether it is a picture as `sent` writes one."""
        with suppress(ValueError, UnidentifiedImageError):
            data = base64.b64decode(text.partition("base64,")[2] or text, validate=True)
            with Image.open(BytesIO(data)):
                return True
        return False

    formats = {"image": is_picture, "image-id": kept.__contains__}

    @schemathesis.hook
    def filter_case(context: Any, case: Any) -> bool:
        """No request that was to be wrong and is right: null for one alternative is right where null is another."""
        if case.meta is None or case.media_type != "application/json" or isinstance(case.body, bytes):
            return True
        wrong = [part for part, info in case.meta.components.items() if info.mode.is_negative]
        if wrong != ["body"]:
            return True
        operation = context.operation
        schema = operation.definition.raw["requestBody"]["content"][case.media_type]["schema"]
        whole = {**schema, "components": operation.schema.raw_schema["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True, formats=formats)
        return not validator.is_valid(case.body)

    @schemathesis.hook
    def before_call(context: Any, case: Any, **_: Any) -> None:
        """What no schema can say: as many queries as documents or one; a label is of two; ids are of a collection."""
        path, body = case.operation.path, case.body
        # A form with a file that is changed here would be taken for an invalid one.
        form = case.media_type != "application/json"
        if form or not isinstance(body, dict) or not case.meta or not case.meta.generation.mode.is_positive:
            return
        if path.endswith("/score"):
            body["queries"] = body["documents"]
        if path == "/v1/pairs/labels":
            body["a"], body["b"] = kept[:2]
        if body.get("collection"):
            body["collection"] = NAMES[1]


def contract(folder: Path, model: str, *, minutes: float, closed: bool, seed: int) -> subprocess.CompletedProcess[str]:
    """One run over a service with two collections of its own in `folder`; 0 is its exit code if nothing was found."""
    scorer = Scorer.load(model, threads=1)
    root = folder / "root"
    ids = []
    with Collections.open(root, scorer) as collections:
        for name in NAMES:
            collections.create(name)
            with collections.borrow(name) as collection:
                ids = [
                    collection.add(drawn(colour), metadata={"colour": colour}, keep_originals=True)[0].id
                    for colour in range(5)
                ]
    secret, key = new_key("contract", "admin")
    serving = {**os.environ, **({"DIPTYCH_KEYS": key_line(key)} if closed else {})}
    here = Path(__file__).resolve()  # the hooks, which import what lies beside them
    paths = os.pathsep.join([str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    asking = {**os.environ, "SCHEMATHESIS_HOOKS": str(here), "PYTHONPATH": paths, STORED: json.dumps(ids)}
    options = ["--header", f"Authorization: Bearer {secret}"] if closed else []
    with run_service(root, model, 1, option="--collections", environment=serving) as (port, _):
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{port}/openapi.json"),
            *("--max-time", str(round(60 * minutes)), "--seed", str(seed), "--suppress-health-check", "all"),
            *("--continue-on-failure", *options),
        ]
        return subprocess.run(command, env=asking, cwd=folder, text=True, capture_output=True)


def main() -> int:
    """Run it, print what Schemathesis says, and end as it ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to ask (default: 1)")
    parser.add_argument("--keys", action="store_true", help="close the service and bring a key")
    parser.add_argument("--seed", type=int, default=1, help="of what is asked (default: 1)")
    parser.add_argument("--model", default="photo-small", help="the model to serve (default: photo-small)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ended = contract(Path(folder), args.model, minutes=args.minutes, closed=args.keys, seed=args.seed)
    print(ended.stdout)
    print(ended.stderr, file=sys.stderr)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
