"""`diptych score`: one pair, or all pairs of a table."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from diptych.batch import Job, Report, score_stream
from diptych.durable import replacing
from diptych.errors import BatchError
from diptych.indexing import load
from diptych.naming import fetcher, pictures
from diptych.pairs import FORMATS, import_parquet, shortest, standard_output
from diptych_export.commandline import emit, progress, remark


def score(args: argparse.Namespace) -> int:
    """Run `diptych score`."""
    if len(args.inputs) > 2:
        args.usage_error(f"expected two pictures or one CSV file, got {len(args.inputs)} files")
    if len(args.inputs) == 2:
        if args.output or args.format or args.resume or args.force:
            args.usage_error("--output, --format, --resume and --force belong to a CSV file, and here are two pictures")
        return _score_pair(args)
    if args.output is None:
        args.usage_error("a CSV file of pairs needs -o OUT.csv, OUT.jsonl or OUT.parquet, or -o - for standard output")
    return _score_table(args, args.inputs[0], _format(args))


def _score_pair(args: argparse.Namespace) -> int:
    a, b = args.inputs
    scorer = load(args)
    first, second = pictures(args, [a, b])
    logits = scorer.predict([(first, second)], activation=False)
    relevance, raw = shortest(scorer.relevance(logits)[0]), shortest(logits[0])
    data = {
        "image_a": a,
        "image_b": b,
        "model": scorer.runtime.name,
        "revision": scorer.runtime.revision,
        "relevance_score": relevance,
        "raw_score": raw,
    }
    emit(args, data, f"{relevance:.6f}  (raw score {raw:.6f})")
    return 0


def _score_table(args: argparse.Namespace, table: str, format: str) -> int:
    streamed = "-" in (table, args.output)
    if streamed and args.resume:
        args.usage_error("--resume needs a CSV file and an output file; standard input and output cannot be resumed")
    if format == "parquet":
        import_parquet()
        if args.output == "-":
            raise BatchError("Parquet cannot be written to standard output; choose csv or jsonl, or a file")
    began = perf_counter()
    try:
        report = _stream(args, table, format) if streamed else _journal(args, Path(table), format)
    except KeyboardInterrupt:
        remark(args, "interrupted" if streamed else "interrupted; the same command with --resume goes on from here")
        return 130
    seconds = perf_counter() - began
    data = {
        "output": args.output,
        "pairs": report.pairs,
        "errors": report.errors,
        "scored": report.scored,
        "seconds": round(seconds, 3),
        "pairs_per_second": round(report.scored / seconds, 1),
    }
    text = (
        f"{report.pairs:,} pairs in {args.output}, {report.scored:,} scored now at {data['pairs_per_second']:,} pairs/s"
    )
    if report.errors:
        text += f"; {report.errors:,} could not be scored, the column error says why"
    if args.output == "-":
        remark(args, text)
    else:
        emit(args, data, text)
    return 1 if report.errors else 0


def _stream(args: argparse.Namespace, table: str, format: str) -> Report:
    with ExitStack() as stack:
        if args.output == "-":
            output = standard_output()
        elif Path(args.output).exists() and not args.force:
            raise BatchError(f"{args.output} exists already; name another file, or replace it with --force")
        else:
            output = stack.enter_context(replacing(Path(args.output)))
        bar = stack.enter_context(progress((), args, unit="pair", desc="scoring"))
        return score_stream(load(args), table, output, format, bar.update, fetcher(args))


def _journal(args: argparse.Namespace, table: Path, format: str) -> Report:
    output = Path(args.output)
    if output.exists() and table.exists() and output.samefile(table):
        raise BatchError(f"{output} is the table itself; name another file for the result")
    job = Job(load(args), table, output, format, fetcher(args))
    with job.opened(resume=args.resume, force=args.force):
        if job.done:
            remark(args, f"going on after {job.resumed:,} of {job.survey.rows:,} pairs")
        with progress((), args, total=job.survey.rows, unit="pair", desc="scoring") as bar:
            bar.update(job.resumed)
            return job.run(bar.update)


def _format(args: argparse.Namespace) -> str:
    if args.format:
        return args.format
    if args.output == "-":
        return "csv"
    ending = Path(args.output).suffix.lower().lstrip(".")
    if ending not in FORMATS:
        args.usage_error(f"{args.output} ends in none of .csv, .jsonl and .parquet; say which with --format")
    return ending
