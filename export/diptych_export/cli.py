"""`diptych export`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.console import Subparsers, command, emit, remark
from diptych_runtime.errors import ArtifactError

if TYPE_CHECKING:
    from diptych_runtime.manifest import Manifest


def register(subparsers: Subparsers) -> None:
    """Add the subcommands of this package."""
    parser = command(
        subparsers, "export", "write a checkpoint as a model artifact: ONNX graphs and manifest", run_export
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="directory that `diptych train` wrote, or a released model"
    )
    parser.add_argument("-o", "--output", metavar="ARTIFACT", help="directory to write, as a whole or not at all")
    parser.add_argument(
        "--triton",
        metavar="DIR",
        help="put it into this model repository of NVIDIA Triton; without -o what is an artifact or a released model",
    )
    parser.add_argument("--name", help="name in the manifest (default: the directory's)")
    parser.add_argument("--opset", type=int, default=23, help="ONNX operator set of the graphs (default: %(default)s)")
    parser.add_argument(
        "--pixels", type=int, metavar="S", help="side of the panels, for a faster model (default: as it was trained)"
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="int8: convolutions in 8 bits, for the CPU; float16: for a GPU (default: %(default)s)",
    )
    parser.add_argument(
        "--pictures",
        metavar="DIR",
        help="for another precision: some hundred pictures like those to be compared, to make and judge it by",
    )
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare the graphs with torch, and write nothing if they differ by more than 1e-5 (default: check)",
    )
    parser.add_argument(
        "--weights", action="store_true", help="put the weights in too, in float16, for others to train on from"
    )
    parser.set_defaults(parser=parser)


def run_export(args: argparse.Namespace) -> int:
    """Run `diptych export`."""
    if not args.output:
        _refuse_what_needs_an_output(args)
    document, lines = _export(args) if args.output else ({}, [])
    if args.triton:
        from diptych_export.triton import write_repository

        models = write_repository(args.output or args.checkpoint, args.triton)
        document["triton"] = {"repository": args.triton, "models": models}
        lines.append(f"{args.triton}: the models {', '.join(models)} for Triton")
    emit(args, document, "\n".join(lines))
    return 0


def _refuse_what_needs_an_output(args: argparse.Namespace) -> None:
    if not args.triton:
        args.parser.error("the following arguments are required: -o/--output, or --triton for what is an artifact")
    for option in ("name", "opset", "pixels", "precision", "pictures", "check", "weights"):
        if getattr(args, option) != args.parser.get_default(option):
            args.parser.error(f"--{option} changes what is exported, which needs -o/--output as well")


def _export(args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    try:
        from diptych_export.artifact import export_checkpoint
    except ModuleNotFoundError as error:
        raise ArtifactError(
            f"exporting needs {error.name}; install it with `pip install 'diptych[train,cpu]'`"
        ) from None
    remark(args, "exporting, and comparing every way to run it (about a minute) ...")
    manifest = export_checkpoint(
        args.checkpoint,
        args.output,
        name=args.name,
        opset=args.opset,
        check=args.check,
        weights=args.weights,
        pixels=args.pixels,
        precision=args.precision,
        pictures=args.pictures,
    )
    sizes = {file: (Path(args.output) / file).stat().st_size for file in manifest.digests}
    lines = [] if args.quiet else _gates(manifest)
    lines.append(
        f"{args.output}: model {manifest.name}, revision {manifest.revision}, "
        + ", ".join(f"{file} {size / 1e6:.1f} MB" for file, size in sizes.items())
    )
    described = asdict(manifest) | {"thresholds": manifest.thresholds}
    return {"artifact": args.output, "bytes": sizes, "manifest": described}, lines


def _gates(manifest: Manifest) -> list[str]:
    from diptych_export.parity import Parity
    from diptych_export.precision import Ranking

    parity = [Parity.from_dict(manifest.parity).text()] if manifest.parity else []
    return [*parity, Ranking(**manifest.ranking).text()] if manifest.ranking else parity
