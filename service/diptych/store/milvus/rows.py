"""The row of a picture in a Milvus collection, with checksums of all that matters, and what Milvus can filter by."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diptych.errors import ModelMismatchError, StoreError
from diptych.store.filters import Comparison, Condition, Filter, Junction, parse_filter
from diptych.store.originals import find_feature_faults
from diptych.store.records import FileStamp, NewPicture, Record
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime
from diptych_runtime.token_codec import read_numbers

FORMAT = "1"
FIELD = "facets"

_PLAIN = re.compile(r"[A-Za-z0-9_ -]+(\.[A-Za-z0-9_ -]+)*")
_SAFE = 2**53  # whole numbers to here are the same in all of Milvus's kinds of numbers
_FAR = 1e300  # stands for those beyond, of which an expression only asks on which side they are
TEXT = 65_535  # bytes that Milvus's texts and JSON values may have
_FACTS = ("id", "sha256", "path", "media_type", "width", "height", "frames", "stamp")
_PART = TEXT // 4 * 4


@dataclass(frozen=True)
class Layout:
    """The fields of a collection for the pictures of one model revision.

    The field of the embeddings is named after it: a service with another model, which was left running while the
    collection was embedded anew, gets an error and no wrong answers.
    """

    revision: str
    dimension: int
    token_bytes: int

    @classmethod
    def of(cls, runtime: Runtime) -> Layout:
        """The layout for a model."""
        return cls(runtime.revision, runtime.embedding_dim, runtime.codec.nbytes)

    @classmethod
    def read(cls, name: str, properties: Mapping[str, str]) -> Layout:
        """The layout that a collection's properties say. Raises StoreError for one that is not ours to read."""
        kept = {key.removeprefix("diptych."): value for key, value in properties.items() if key.startswith("diptych.")}
        if "format" not in kept:
            raise StoreError(f"{name} is a collection of something else than Diptych; choose another name")
        if kept["format"] != FORMAT:
            raise StoreError(
                f"{name} has the format version {kept['format']}, and this Diptych reads version {FORMAT}; "
                "install the release that made it, or index the pictures again under another name"
            )
        return cls(kept["revision"], int(kept["dimension"]), int(kept["token_bytes"]))

    def fits_model(self, runtime: Runtime) -> bool:
        """True if pictures of a model can be here: an earlier version of Diptych kept all tokens in float16."""
        known = self.revision == runtime.revision and self.dimension == runtime.embedding_dim
        return known and self.token_bytes in (runtime.codec.nbytes, runtime.codec.float16_nbytes)

    def properties(self) -> dict[str, str]:
        """The properties that `read` reads."""
        return {"diptych.format": FORMAT, **{f"diptych.{key}": str(value) for key, value in asdict(self).items()}}

    @property
    def vector(self) -> str:
        """The field of the embeddings."""
        return f"embedding_{self.revision}"

    @property
    def parts(self) -> list[str]:
        """The fields of the tokens, in base64: a text of Milvus cannot have more than 64 KB."""
        return [f"tokens_{n}" for n in range(-(-4 * -(-self.token_bytes // 3) // _PART))]

    @property
    def fields(self) -> list[str]:
        """All fields."""
        return ["id", self.vector, "record", "path", "kept", FIELD, *self.parts]

    def row(self, new: NewPicture, added: str) -> dict[str, Any]:
        """A picture as a row. Raises PictureError if its metadata and path are larger than Milvus can hold."""
        facts = {name: getattr(new, name) for name in _FACTS}
        facts |= {"metadata": new.metadata, "added": added, "revision": new.revision, "kept": new.data is not None}
        tokens = new.tokens if len(new.tokens) == self.token_bytes else read_numbers(new.tokens).astype("<f2").tobytes()
        facts |= {"embedding_crc": zlib.crc32(new.embedding), "tokens_crc": zlib.crc32(tokens)}
        return self._make_row(facts, np.frombuffer(new.embedding, "<f4"), b64encode(tokens).decode())

    def change_row(self, row: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
        """A row read with `fields`, with some of its facts changed."""
        tokens = "".join(row[part] for part in self.parts)
        return self._make_row(self.facts(row) | facts, np.asarray(row[self.vector], "<f4"), tokens)

    def find_faults(self, row: Mapping[str, Any]) -> list[str]:
        """The faults of the embedding and the tokens of a row whose record is whole."""
        try:
            embedding, tokens = self.embedding(row), self.tokens(row)
        except StoreError as fault:
            return [str(fault)]
        return find_feature_faults(np.frombuffer(embedding, "<f4"), read_numbers(tokens))

    def _make_row(self, facts: dict[str, Any], embedding: np.ndarray, tokens: str) -> dict[str, Any]:
        text = json.dumps(facts, ensure_ascii=False, default=asdict)  # a stamp
        record, asked = f"{zlib.crc32(text.encode()):08x}{text}", list_facets(facts["metadata"])
        size = max(len(record.encode()), len(json.dumps(asked, ensure_ascii=False).encode()))
        if size > TEXT:
            raise PictureError(
                f"metadata and path of the picture {facts['id']} take {size:,} bytes, and Milvus holds {TEXT:,}; "
                "keep less beside it"
            )
        parts = {part: tokens[n * _PART : (n + 1) * _PART] for n, part in enumerate(self.parts)}
        row = {"id": facts["id"], "record": record, "path": facts["path"] or "", "kept": facts["kept"], FIELD: asked}
        return {**row, self.vector: embedding, **parts}

    def facts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The facts in the record of a row. Raises StoreError if it is not as it was written."""
        text = row["record"][8:]
        if f"{zlib.crc32(text.encode()):08x}" != row["record"][:8]:
            text = "{}"
        facts = json.loads(text)
        if facts.get("id") != row["id"]:
            raise make_damage_error(row["id"], "record", f"remove the picture {row['id']} and add it again")
        return facts

    def record(self, row: Mapping[str, Any]) -> Record:
        """The record in a row with `id` and `record`. Raises StoreError if it is not as it was written."""
        facts = self.facts(row)
        facts["original_kept"] = facts["kept"]
        facts["stamp"] = (stamp := facts.get("stamp")) and FileStamp(**stamp)  # earlier versions kept none
        facts.setdefault("frames", None)  # of an earlier version
        return Record(**{name: facts[name] for name in Record.__dataclass_fields__})

    def tokens(self, row: Mapping[str, Any]) -> bytes:
        """The tokens in a row with `id`, `record` and `parts`. Raises StoreError like `record`."""
        try:
            tokens = b64decode("".join(row[part] for part in self.parts), validate=True)
        except (Base64Error, ValueError):
            tokens = b""
        if zlib.crc32(tokens) != self._read_own_facts(row)["tokens_crc"] or len(tokens) != self.token_bytes:
            raise make_damage_error(row["id"], "list of tokens", "`diptych index rebuild` embeds it anew")
        return tokens

    def embedding(self, row: Mapping[str, Any]) -> bytes:
        """The embedding in a row with `id`, `record` and `vector`. Raises StoreError like `record`."""
        wanted = self._read_own_facts(row)["embedding_crc"]
        embedding = np.asarray(row[self.vector], "<f4").tobytes()
        if zlib.crc32(embedding) != wanted:
            raise make_damage_error(row["id"], "embedding", "`diptych index rebuild` embeds it anew")
        return embedding

    def _read_own_facts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a row whose features are of our model."""
        facts = self.facts(row)
        if facts["revision"] != self.revision:
            raise ModelMismatchError(
                f"the picture {row['id']} is of another model ({facts['revision']}); start again with that one"
            )
        return facts


def make_damage_error(id: str, what: str, remedy: str) -> StoreError:
    """The error for a part of a row that has not the checksum it was written with."""
    return StoreError(f"the picture {id} of the collection is damaged: its {what} has another checksum; {remedy}")


# Versions of Milvus differ in what `not`, `!=`, `exists` and null mean for a field that is not there. So an expression
# only says what pictures that meet a condition have for certain; who asks then looks at the metadata themselves.
def list_facets(metadata: dict[str, Any]) -> dict[str, Any]:
    """The values that expressions search, by dotted path: the texts, numbers, true and false under plain names."""
    found: dict[str, Any] = {}
    level = [("", metadata)]
    while level:
        path, inside = level.pop()
        for name, value in inside.items():
            here = f"{path}{name}"
            if "." in name or not _PLAIN.fullmatch(here):
                continue
            if isinstance(value, dict):
                level.append((f"{here}.", value))
            elif isinstance(value, str | bool):
                found[here] = value
            elif isinstance(value, int | float):
                found[here] = value if abs(value) <= _SAFE else _FAR if value > 0 else -_FAR
    return found


def write_expression(condition: Filter) -> str:
    """An expression that every picture that meets the condition meets too; empty if there is none.

    Raises ArgumentError for what is no condition.
    """
    return _write_part(parse_filter(condition))


def _write_part(part: Condition) -> str:
    match part:
        case Junction(word, parts):
            known = [text for text in map(_write_part, parts) if text]
            if not known or (word == "OR" and len(known) < len(parts)):
                return ""
            return known[0] if len(known) == 1 else f"({f' {word.lower()} '.join(known)})"
        case Comparison(field, sign, value) if sign != "exists" and _PLAIN.fullmatch(field) and _is_sayable(value):
            asked = "==" if sign == "=" else sign
            return f"{FIELD}[{json.dumps(field)}] {asked} {json.dumps(value, ensure_ascii=False)}"
    return ""


def _is_sayable(value: Any) -> bool:
    """True if a value means the same in an expression for all versions of Milvus."""
    if isinstance(value, str):
        return value.isprintable() and not set(value) & {'"', "\\", "{", "}"}
    if isinstance(value, bool):
        return True
    return isinstance(value, int | float) and abs(value) <= _SAFE
