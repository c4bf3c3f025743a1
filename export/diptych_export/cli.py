"""`diptych export`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Context, Option

from diptych.command_tree import Commands, Json, Quiet
from diptych.console import Console
from diptych_runtime.errors import ArtifactError
from diptych_runtime.paths import given_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from diptych.progress import ProgressBar
    from diptych_runtime.manifest import Manifest


_CONFIG = "config.json"  # of a checkpoint, as `diptych_model.checkpoint` calls it
_ALIGNED, _LOSSES = "aligned.safetensors", "losses.safetensors"  # as `diptych_model.networks` calls their weights
_OF_PAIRS = ("name", "opset", "precision", "pictures", "check", "weights")  # options of a pair network


def register(commands: Commands) -> None:
    """Add the command of this package."""
    commands.add("diptych_export.cli:export", "Write a checkpoint as a model artifact: ONNX graphs and manifest")


_Checkpoint = Annotated[
    str,
    Argument(parser=given_path, metavar="CHECKPOINT", help="directory that `diptych train` wrote, or a released model"),
]
_Output = Annotated[
    str,
    Option(
        "-o", "--output", parser=given_path, metavar="ARTIFACT", help="directory to write, as a whole or not at all"
    ),
]


def export(
    context: Context,
    checkpoint: _Checkpoint,
    output: _Output,
    name: Annotated[
        str | None, Option(metavar="NAME", help="name in the manifest", show_default="the directory's")
    ] = None,
    opset: Annotated[int, Option(metavar="N", help="ONNX operator set of the graphs")] = 23,
    precision: Annotated[
        Literal["float32", "int8"],
        Option(help="int8: convolutions, and where the processor can judge it the pair graph, in 8 bits for the CPU"),
    ] = "float32",
    pictures: Annotated[
        str | None,
        Option(
            parser=given_path,
            metavar="DIR",
            help="for int8: some hundred pictures like those to be compared, to make and judge it by",
        ),
    ] = None,
    check: Annotated[
        bool,
        Option(
            "--check/--no-check",
            help="compare the graphs with torch, and write nothing if they differ by more than 1e-5",
        ),
    ] = True,
    weights: Annotated[
        bool, Option("--weights", help="put the weights in too, in float16, for others to train on from")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a checkpoint as a model artifact: ONNX graphs and manifest."""
    console = Console(as_json, quiet)
    if any((Path(checkpoint) / file).is_file() for file in (_ALIGNED, _LOSSES)):
        document, text = _export_look(context, Path(checkpoint), Path(output))
    else:
        _check_checkpoint(checkpoint)
        export_checkpoint = _export_checkpoint()
        console.remark("exporting, and comparing every way to run it ..." if check else "exporting ...")
        with console.progress(unit="pair", desc="comparing") as bar:
            manifest = export_checkpoint(
                checkpoint,
                output,
                name=name,
                opset=opset,
                check=check,
                weights=weights,
                precision=precision,
                pictures=pictures,
                on_pairs=partial(_start_bar, bar),
            )
        document, written = _describe_artifact(manifest, output)
        text = "\n".join([*([] if quiet else _gate_texts(manifest)), written])
    console.emit(document, text)
    return 0


def _start_bar(bar: ProgressBar[Any], total: int) -> Callable[[int], object]:
    bar.total = total
    return bar.update


def _find_changed_options(context: Context, names: Sequence[str]) -> list[str]:
    """The options of these names whose value is not their default."""
    return [
        option.name
        for option in context.command.params
        if option.name in names and context.params[option.name] != option.default
    ]


def _export_look(context: Context, checkpoint: Path, output: Path) -> tuple[dict[str, Any], str]:
    """Write the graph of a network of the closer look, and describe it as JSON and as text."""
    is_aligned = (checkpoint / _ALIGNED).is_file()
    if given := _find_changed_options(context, _OF_PAIRS):
        kind = "an aligned-pair network" if is_aligned else "a network of losses"
        raise BadParameter(f"--{given[0]} is for a pair network, and {checkpoint} has {kind}")
    _export_checkpoint()
    from diptych_export.graphs import export_aligned, export_losses
    from diptych_model.networks.aligned import load_aligned
    from diptych_model.networks.losses import load_losses
    from diptych_runtime.atomic import replacing_folder
    from diptych_runtime.closer_look import aligned, comparison

    graph = export_aligned(load_aligned(checkpoint)) if is_aligned else export_losses(load_losses(checkpoint))
    name, data = (aligned if is_aligned else comparison).GRAPH, graph.SerializeToString()
    with replacing_folder(output) as fresh:
        (fresh / name).write_bytes(data)
    text = f"{output / name}: a network of the closer look, {len(data) / 1e6:.1f} MB"
    return {"graph": str(output / name), "bytes": len(data)}, text


def _check_checkpoint(checkpoint: str) -> None:
    """Raise ArtifactError for a path that cannot be a checkpoint; torch, whose import takes seconds, is not needed."""
    from diptych_runtime.models import find_checkpoint

    folder = find_checkpoint(checkpoint)
    if not folder.exists():
        raise ArtifactError(
            f"{checkpoint} does not exist; expected a directory that `diptych train` wrote, or a released model"
        )
    if not (folder / _CONFIG).is_file():
        raise ArtifactError(
            f"{checkpoint} cannot be exported: a checkpoint is a directory with {_CONFIG} and weights.safetensors, as "
            f"`diptych train` writes it; {folder} has no {_CONFIG}"
        )


def _export_checkpoint() -> Callable[..., Manifest]:
    try:
        from diptych_export.artifact import export_checkpoint
    except ModuleNotFoundError as error:
        raise ArtifactError(
            f"exporting needs {error.name}; install it with `pip install 'diptych[train,cpu]'`"
        ) from None
    return export_checkpoint


def _describe_artifact(manifest: Manifest, output: str) -> tuple[dict[str, Any], str]:
    """The description of an artifact, as JSON and as text."""
    sizes = {file: (Path(output) / file).stat().st_size for file in manifest.digests}
    text = f"{output}: model {manifest.name}, revision {manifest.revision}, " + ", ".join(
        f"{file} {size / 1e6:.1f} MB" for file, size in sizes.items()
    )
    text += f"\na picture costs {manifest.flops['panel'] / 1e6:,.1f} MFLOP, a pair {manifest.flops['pair'] / 1e6:,.1f}"
    if manifest.scores_pixels:
        text += " from the pixels of both, in both orders, each time; nothing but pixels is kept of a picture for it"
    described = asdict(manifest) | {"thresholds": manifest.thresholds}
    return {"artifact": output, "bytes": sizes, "manifest": described}, text


def _gate_texts(manifest: Manifest) -> list[str]:
    from diptych_export.parity import Parity
    from diptych_export.precision import ranking_texts

    parity = [Parity.from_dict(manifest.parity).text()] if manifest.parity else []
    return [*parity, *ranking_texts(manifest.ranking)]
