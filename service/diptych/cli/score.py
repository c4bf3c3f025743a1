"""`diptych score`: one pair, or all pairs of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, format_count
from diptych.errors import BatchError
from diptych_runtime.calibration.questions import THING
from diptych_runtime.paths import given_path

if TYPE_CHECKING:
    from diptych.batch.job import Job, Report
    from diptych.batch.workers.executor import Executor
    from diptych.scoring.scorer import Scorer
    from diptych_runtime.judgement import Judgement

Format = Literal["csv", "tsv", "jsonl", "parquet"]

_STEPS = {  # what is counted, and whether its total is unknown
    ("row", True): "reading",
    ("picture", False): "encoding",
    ("pair", False): "scoring",
    ("row", False): "writing",
}

_Inputs = Annotated[
    list[str],
    Argument(
        parser=given_path,
        metavar="PICTURE|PAIRS",
        help="two pictures, or a .csv, .tsv, .jsonl or .parquet file with the columns image_a, image_b",
    ),
]
_Output = Annotated[
    str | None,
    Option(
        "-o",
        "--output",
        parser=given_path,
        metavar="OUT",
        help=".csv, .tsv, .jsonl or .parquet file, or - for standard output",
    ),
]
_Columns = Annotated[
    tuple[str, str], Option(metavar="A B", help="columns that name the pictures", show_default="image_a image_b")
]
_Workers = Annotated[
    int | None,
    Option(parser=number(1), metavar="N", help="processes that share the threads", show_default="this one alone"),
]
_CloserLook = Annotated[
    bool, Option(help="in a table: look again at the files of pairs that may be copies", show_default="yes")
]


def score(
    inputs: _Inputs,
    output: _Output = None,
    format: Annotated[Format | None, Option(help="format of OUT", show_default="by its ending, or csv")] = None,
    columns: _Columns = ("image_a", "image_b"),
    resume: Annotated[
        bool, Option("--resume", help="continue a run that was stopped; if it is complete, do nothing")
    ] = False,
    force: Annotated[bool, Option("--force", help="start again and replace the output")] = False,
    workers: _Workers = None,
    engine: options.Engine = "local",
    address: options.ClusterAddress = None,
    question: options.AnyQuestion = None,
    closer_look: _CloserLook = True,
    urls: options.Urls = False,
    model: options.Model = "photo",
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Score one pair, or all pairs of a table.

    Exits with 1 if pairs of a table could not be scored; the column error says why.
    """
    from diptych.batch.job import Job

    console = Console(as_json, quiet)
    if len(inputs) > 2:
        raise BadParameter(f"expected two pictures or one table of pairs, got {len(inputs)} files")
    if len(inputs) == 2:
        if any((output, format, resume, force, workers, address, not closer_look)) or engine == "ray":
            raise BadParameter(
                "--output, --format, --resume, --force, --no-closer-look, --workers, --engine and --address "
                "belong to a table of pairs, and here are two pictures"
            )
        pictures = options.read_pictures(inputs, urls=urls)
        scorer = options.open_scorer(model, provider, threads, question=question, urls=urls)
        _score_pair(console, scorer, inputs, pictures, every=question is None)
        options.remark_calibration(console.remark, scorer.runtime)
        return 0
    (table,) = inputs
    output = _check_output(table, output)
    kind = _choose_format(output, format)
    streamed = "-" in (table, output)
    if streamed and (resume or workers or engine == "ray"):
        raise BadParameter(
            "--resume, --workers and --engine ray need a table in a file and an output file; standard input and output "
            "cannot be resumed or shared out"
        )
    options.check_engine(engine, address, workers)
    asked = question or THING
    began = perf_counter()
    try:
        executor, config = options.open_engine(engine, address, model, provider, threads, workers=workers, urls=urls)
        told = {"bar": partial(_show_bar, console), "say": console.remark}
        job = Job(Path(table), Path(output), kind, config, columns, asked, closer_look, **told)
        if streamed:
            report = _score_stream(job, executor, force=force)
        else:
            report = job.run(executor, resume=resume, force=force)
        data = {
            "output": output,
            **{name: getattr(report.outcome, name) for name in ("pairs", "errors", "closer_looks", "pictures")},
            "scored": report.scored,
            "encoded": report.encoded,
            "steps": {name: round(seconds, 3) for name, seconds in report.seconds.items()},
        }
    except KeyboardInterrupt:
        console.remark("interrupted" if streamed else "interrupted; the same command with --resume goes on from here")
        return 130
    return _print_table(console, data, output, perf_counter() - began)


def _check_output(table: str, output: str | None) -> str:
    """The output for a table of pairs. Ends with a usage error where there is none, or no table."""
    from diptych_runtime.decoder import SUFFIXES

    if output is None or Path(table).suffix.lower() in SUFFIXES or Path(table).is_dir():
        raise BadParameter(
            f"expected two pictures, or a table of pairs (.csv, .tsv, .jsonl, .parquet or -) and -o OUT; got {table!r} "
            f"{'without -o' if output is None else 'as a table'}"
        )
    if output != "-":
        options.check_output(output, [table])
    return output


def _print_table(console: Console, data: dict[str, Any], output: str, seconds: float) -> int:
    """Print the counts and the rate of a table of pairs; 1 if some could not be scored."""
    data |= {"seconds": round(seconds, 3), "pairs_per_second": round(data["scored"] / seconds, 1)}
    rate = f"{data['scored']:,} done now at {data['pairs_per_second']:,} pairs/s"
    text = f"{format_count(data['pairs'], 'pair')} in {output}, {rate}"
    if data["closer_looks"]:
        text += f"; {format_count(data['closer_looks'], 'closer look')}"
    if data.get("steps") == {}:
        text = f"nothing to do: {output} is complete, with {format_count(data['pairs'], 'pair')}"
    if data["errors"]:
        text += f"; {data['errors']:,} could not be scored, the column error says why"
    if output == "-":
        console.remark(text)
    else:
        console.emit(data, text)
    return 1 if data["errors"] else 0


def _score_pair(
    console: Console, scorer: Scorer, names: Sequence[str], pictures: Sequence[str | bytes], *, every: bool
) -> None:
    """Score two pictures, by `every` question or by the one that the scorer asks."""
    from diptych.pictures.file_info import damage_text, is_damaged

    (a, b), (first, second) = names, pictures
    (judged,) = scorer.judge([(first, second)])
    asked = scorer.runtime.question
    answers = {question: _to_answer(judged[question]) for question in (scorer.runtime.questions if every else (asked,))}
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
    console.emit(data, "\n".join(lines))
    sources = dict(zip(names, pictures, strict=True)).items()
    if damaged := [name for name, source in sources if is_damaged(source, scorer.limits)]:
        console.remark(damage_text(damaged))
    if len(answers) == 2:
        console.remark("copy: one picture is made from the other; thing: both show the same thing")


def _to_answer(judgement: Judgement) -> dict[str, Any]:
    import numpy as np

    from diptych.batch.tables.scores import shorten_float

    numbers = {name: shorten_float(np.float32(getattr(judgement, name))) for name in ("relevance_score", "raw_score")}
    return asdict(judgement) | numbers


def _score_stream(job: Job, executor: AbstractContextManager[Executor], *, force: bool) -> Report:
    """Do a job of which the table or the output is `-`, by way of a temporary folder."""
    from diptych.batch.tables.write import standard_output
    from diptych_runtime.atomic import replacing_stream

    table, output = job.table, job.output
    if str(output) != "-" and output.exists() and not force:
        raise BatchError(f"{output} exists already; name another file, or replace it with --force")
    with TemporaryDirectory(prefix="diptych-") as folder, ExitStack() as stack:
        if str(table) == "-":
            table = Path(folder, "standard input.csv")
            with table.open("wb") as copy:
                copyfileobj(sys.stdin.buffer, copy)
        base = Path.cwd() if table is not job.table else None
        report = replace(job, table=table, output=Path(folder, "output"), base=base).run(executor)
        target = standard_output() if str(output) == "-" else stack.enter_context(replacing_stream(output))
        copyfileobj(stack.enter_context(Path(folder, "output").open("rb")), target)
    return report


@contextmanager
def _show_bar(console: Console, unit: str, count: int | None, done: int) -> Iterator[Callable[[int], object]]:
    with console.progress(total=count, initial=done, unit=unit, desc=_STEPS[unit, count is None]) as shown:
        yield shown.update


def _choose_format(output: str, format: Format | None) -> str:
    """The format that is named, or else that of the output's ending. Raises BatchError where it cannot be written."""
    from diptych.batch.tables.arrow import import_arrow
    from diptych.batch.tables.read import kind_of

    kind = format or ("csv" if output == "-" else kind_of(output))
    if kind is None:
        raise BadParameter(f"{output} ends in none of .csv, .tsv, .jsonl and .parquet; say which with --format")
    if kind == "parquet":
        import_arrow()
        if output == "-":
            raise BatchError("Parquet cannot be written to standard output; choose csv or jsonl, or a file")
    return kind
