"""`diptych score`: one pair, or all pairs of a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych.batch.job import Job
from diptych.batch.stream import score_stream
from diptych.batch.tables.arrow import import_arrow
from diptych.batch.tables.read import kind_of
from diptych.batch.tables.scores import shortest
from diptych.batch.tables.write import standard_output
from diptych.cli.outputs import check_output
from diptych.cli.resources import check_engine, engine_of, open_scorer, read_pictures
from diptych.console import emit, progress, remark
from diptych.errors import BatchError
from diptych.pictures.sources import make_fetcher
from diptych_runtime.atomic import replacing
from diptych_runtime.calibration.questions import THING

if TYPE_CHECKING:
    from diptych_runtime.judgement import Judgement

_STEPS = {
    ("row", True): "reading",
    ("picture", False): "encoding",
    ("pair", False): "scoring",
    ("row", False): "writing",
}


def score(args: argparse.Namespace) -> int:
    """Run `diptych score`."""
    if len(args.inputs) > 2:
        args.usage_error(f"expected two pictures or one table of pairs, got {len(args.inputs)} files")
    if len(args.inputs) == 2:
        given = (args.output, args.format, args.resume, args.force, args.workers, args.address)
        if any(given) or args.engine == "ray":
            args.usage_error(
                "--output, --format, --resume, --force and who computes belong to a table of pairs, "
                "and here are two pictures"
            )
        return _score_pair(args)
    if args.output not in (None, "-"):
        check_output(args.output, args.inputs)
    args.question = args.question or THING
    if args.output is None:
        args.usage_error("a table of pairs needs -o OUT.csv, OUT.jsonl or OUT.parquet, or -o - for standard output")
    return _score_table(args, args.inputs[0], _format(args))


def _score_pair(args: argparse.Namespace) -> int:
    a, b = args.inputs
    scorer = open_scorer(args)
    first, second = read_pictures(args, [a, b])
    (judged,) = scorer.judge([(first, second)])
    asked = scorer.runtime.question
    answers = {
        question: _answer(judged[question])
        for question in (scorer.runtime.questions if args.question is None else (asked,))
    }
    data = {
        "image_a": a,
        "image_b": b,
        "model": scorer.runtime.name,
        "revision": scorer.runtime.revision,
        "question": asked,
        **answers[asked],
        "answers": answers,
    }
    lines = [
        f"{question:5}  {one['relevance_score']:.6f}  {one['verdict']:9}  (raw score {one['raw_score']:.6f})"
        for question, one in answers.items()
    ]
    emit(args, data, "\n".join(lines))
    return 0


def _answer(judgement: Judgement) -> dict[str, Any]:
    numbers = {name: shortest(np.float32(getattr(judgement, name))) for name in ("relevance_score", "raw_score")}
    return asdict(judgement) | numbers


def _score_table(args: argparse.Namespace, table: str, format: str) -> int:
    streamed = "-" in (table, args.output)
    if streamed and (args.resume or args.workers or args.engine == "ray"):
        args.usage_error(
            "--resume, --workers and --engine ray need a table in a file and an output file; standard input and output "
            "cannot be resumed or shared out"
        )
    check_engine(args)
    if format == "parquet":
        import_arrow()
        if args.output == "-":
            raise BatchError("Parquet cannot be written to standard output; choose csv or jsonl, or a file")
    began = perf_counter()
    try:
        data = _stream(args, table, format) if streamed else _job(args, Path(table), format)
    except KeyboardInterrupt:
        remark(args, "interrupted" if streamed else "interrupted; the same command with --resume goes on from here")
        return 130
    seconds = perf_counter() - began
    data |= {"seconds": round(seconds, 3), "pairs_per_second": round(data["scored"] / seconds, 1)}
    rate = f"{data['scored']:,} scored now at {data['pairs_per_second']:,} pairs/s"
    text = f"{data['pairs']:,} pairs in {args.output}, {rate}"
    if data["errors"]:
        text += f"; {data['errors']:,} could not be scored, the column error says why"
    if args.output == "-":
        remark(args, text)
    else:
        emit(args, data, text)
    return 1 if data["errors"] else 0


def _stream(args: argparse.Namespace, table: str, format: str) -> dict[str, Any]:
    with ExitStack() as stack:
        if args.output == "-":
            output = standard_output()
        elif Path(args.output).exists() and not args.force:
            raise BatchError(f"{args.output} exists already; name another file, or replace it with --force")
        else:
            output = stack.enter_context(replacing(Path(args.output)))
        bar = stack.enter_context(progress((), args, unit="pair", desc="scoring"))
        pairs, errors = score_stream(
            open_scorer(args),
            table,
            output,
            format,
            bar.update,
            fetch=make_fetcher(args.urls),
            sides=tuple(args.columns),
        )
    return {"output": args.output, "pairs": pairs, "errors": errors, "scored": pairs}


def _job(args: argparse.Namespace, table: Path, format: str) -> dict[str, Any]:
    engine, means = engine_of(args)

    @contextmanager
    def bar(unit: str, count: int | None, done: int) -> Iterator[Callable[[int], object]]:
        with progress((), args, total=count, initial=done, unit=unit, desc=_STEPS[unit, count is None]) as shown:
            yield shown.update

    job = Job(
        table,
        Path(args.output),
        format,
        means,
        tuple(args.columns),
        args.question,
        bar,
        lambda text: remark(args, text),
    )
    report = job.run(engine, resume=args.resume, force=args.force)
    return {
        "output": args.output,
        "pairs": report.outcome.pairs,
        "errors": report.outcome.errors,
        "pictures": report.outcome.pictures,
        "scored": report.scored,
        "encoded": report.encoded,
        "steps": {name: round(seconds, 3) for name, seconds in report.seconds.items()},
    }


def _format(args: argparse.Namespace) -> str:
    if args.format:
        return args.format
    if args.output == "-":
        return "csv"
    ending = kind_of(args.output)
    if ending is None:
        args.usage_error(f"{args.output} ends in none of .csv, .tsv, .jsonl and .parquet; say which with --format")
    return str(ending)
