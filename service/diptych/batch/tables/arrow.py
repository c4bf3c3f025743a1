"""Apache Arrow for tables: Parquet in and out, with the types of all columns. pyarrow is an extra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diptych.errors import BatchError
from diptych_runtime.own_files import open_own

_BUFFER = 2**20  # bytes of each column
# A file of kilobytes may hold one long text in all of its rows: few are unpacked at once, and counted by their bytes.
_ROWS, _MOST_TEXT, _MOST_BYTES = 16, 2**20, 2**26


def import_arrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet part; BatchError with the line that installs them where they are missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BatchError("Parquet needs pyarrow; install it with `pip install 'diptych[parquet]'`") from None
    return pyarrow, pyarrow.parquet


@contextmanager
def open_parquet(name: str, rows: int, sides: Sequence[str]) -> Iterator[tuple[list[str], Iterator[Any]]]:
    """The columns of a Parquet file and its batches of at most so many rows, and of some 64 MiB.

    Raises BatchError if it cannot be read, if one of `sides` holds no text, and for a text of more than 1 MiB.
    """
    pyarrow, parquet = import_arrow()
    try:
        open_own(name, may_link=True).close()  # what the system says is shorter than what pyarrow makes of it
        metadata = parquet.read_metadata(name)
        schema = metadata.schema.to_arrow_schema()
        # As set here, of a row group only pages are in memory, and of texts that repeat each is there once.
        columns = map(metadata.schema.column, range(metadata.num_columns))
        packed = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with parquet.ParquetFile(
            name, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=packed
        ) as file:
            for side in set(sides) & set(schema.names):
                kind = schema.field(schema.names.index(side)).type
                kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
                if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                    raise BatchError(f"{name}: {side} holds {kind}; expected the paths of pictures as text")
            found = file.iter_batches(batch_size=min(rows, _ROWS))
            yield schema.names, _bound_batches(found, schema, rows, name)
    except pyarrow.ArrowException as error:
        raise BatchError(f"{name} cannot be read as Parquet: {error}") from None


def _bound_batches(found: Iterator[Any], schema: Any, rows: int, name: str) -> Iterator[Any]:
    pyarrow, _ = import_arrow()
    kept, count, size = list[Any](), 0, 0
    for packed in found:
        more = sum(
            _measure_bytes(column, f"{name}: {field.name}")
            for field, column in zip(packed.schema, packed.columns, strict=True)
        )
        if more > _MOST_BYTES:
            raise BatchError(f"{name}: {len(packed)} rows hold more than {_MOST_BYTES:,} bytes; leave columns out")
        batch = packed.cast(schema)
        if kept and (count + len(batch) > rows or size + more > _MOST_BYTES):
            yield pyarrow.concat_batches(kept)
            kept, count, size = [], 0, 0
        kept.append(batch)
        count, size = count + len(batch), size + more
    if kept:
        yield pyarrow.concat_batches(kept)


def _measure_bytes(column: Any, label: str) -> int:
    """The bytes of a column without its dictionaries, at most. Raises BatchError for a text that is too long."""
    from pyarrow import compute, types

    kind = column.type
    if types.is_map(kind):
        return column.nbytes + _measure_bytes(column.keys, label) + _measure_bytes(column.items, label)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return column.nbytes + _measure_bytes(column.flatten(), label)
    if types.is_struct(kind):
        return sum(_measure_bytes(part, label) for part in column.flatten())
    if not types.is_dictionary(kind):
        return column.nbytes
    values = column.dictionary
    if not len(values) or types.is_primitive(values.type):
        return column.nbytes
    longest = compute.call_function("max", [compute.call_function("binary_length", [values])]).as_py() or 0
    if longest > _MOST_TEXT:
        raise BatchError(f"{label} holds a text of more than {_MOST_TEXT:,} bytes")
    return column.nbytes + longest * len(column)


def common_schema(schemas: Iterable[Any], name: str) -> Any:
    """One schema for batches, whose columns may be missing or empty. Raises BatchError for types that do not fit."""
    pyarrow, _ = import_arrow()
    common = pyarrow.schema([])
    for schema in schemas:
        try:
            common = pyarrow.unify_schemas([common, schema], promote_options="permissive")
        except pyarrow.ArrowException as error:
            raise _make_type_error(name, error) from None
    null = pyarrow.null()
    return pyarrow.schema([field.with_type(pyarrow.string()) if field.type == null else field for field in common])


def from_rows(rows: Sequence[dict[str, Any]], schema: Any = None) -> Any:
    """A record batch of rows as JSON has them. Raises BatchError where a column has values of several types."""
    pyarrow, _ = import_arrow()
    if schema is None:
        # Of the first row alone it would take the columns.
        names = dict.fromkeys(name for row in rows for name in row)
        try:
            columns = {name: pyarrow.array([row.get(name) for row in rows]) for name in names}
        except (pyarrow.ArrowException, OverflowError) as error:
            raise _make_type_error("the table", error) from None
        return pyarrow.RecordBatch.from_pydict(columns)
    return pyarrow.RecordBatch.from_pylist(rows, schema)


def _make_type_error(name: str, error: Exception) -> BatchError:
    mixed = f"{name} has a column with values of several types ({error}), which Parquet does not hold"
    return BatchError(f"{mixed}; write JSON lines instead, or give the column one type")
