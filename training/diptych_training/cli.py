"""The subcommands of this package: train, edit, unpack; evaluate has a file of its own, and studies a package."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from diptych.command_tree import Commands, Json, Quiet
from diptych.console import Console

# The module that trains a network of a checkout, where alone another can take the released one's place, by the recipe's
# table.
OF_STUDIES = {"aligned": "diptych_studies.aligned.training"}


def register(commands: Commands) -> None:
    """Add all of them to the command line."""
    evaluate = commands.group("evaluate", "Measure a model")
    evaluate.add("diptych_training.evaluation.cli:oneshot", "One-shot runs of characters, in Lake's layout")
    evaluate.add("diptych_training.evaluation.cli:episodes", "Random one-shot episodes within an alphabet")
    evaluate.add("diptych_training.evaluation.cli:retrieval", "Pictures of a class, searched in a gallery")
    evaluate.add("diptych_training.evaluation.cli:copies", "Edited copies among the photos they were made from")
    evaluate.add("diptych_training.evaluation.cli:pairs", "Labelled pairs of pictures")
    commands.add("diptych_training.cli:train", "Train a network from a recipe")
    commands.add("diptych_training.cli:edit", "Make edited copies of photos, with the truth, to measure with")
    commands.add("diptych_training.cli:unpack", "Write the photos of a training archive into a folder, with its splits")
    _register_studies(commands)


def _register_studies(commands: Commands) -> None:
    """Add `diptych study`, and the benchmarks and evaluations of its package, which is in no wheel."""
    if find_spec("diptych_studies") is None:
        reason = "this installation has no studies; they need a checkout of Diptych: `pip install -e '.[train]'` in it"
        commands.refuse("study", "Train and compare variants of the network; needs a checkout", reason)
        for name in ("calibration", "duplicates", "parts"):
            commands.group("evaluate", "Measure a model").refuse(name, "Kinds of pictures; needs a checkout", reason)
        commands.refuse("estimate", "Estimate the cost of many pictures; needs a checkout", reason)
    else:
        import_module("diptych_studies.commands").register(commands)


def train(
    recipe: Annotated[Path, Argument(metavar="RUN.toml", help="the recipe; training/recipes/ has examples")],
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="DIR", help="directory of the run", show_default="runs/NAME"),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="go on from the run's last saved state")] = False,
    changes: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="change the recipe: learning.rate=1e-3, stages.0.steps=60, network.relation=siamese (repeatable)",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train a network from a recipe."""
    console = Console(as_json, quiet)
    try:
        from diptych_training.learning.distributed import is_first
        from diptych_training.recipe import open_training

        training, read = open_training(recipe, changes or [], OF_STUDIES)
    except ImportError as error:
        from diptych_training.errors import DataError

        of_studies = str(error.name).startswith("diptych_studies")
        needed = "a checkout of Diptych" if of_studies else "`pip install 'diptych[train]'`"
        raise DataError(f"{recipe}: training needs {needed}: {error}") from None
    directory = out or Path("runs") / read.name
    found = training.train(read, directory, resume=resume, quiet=console.is_silent)
    if is_first():
        console.emit(*training.report(found, directory))
    return 0


def edit(
    photos: Annotated[Path, Argument(metavar="DIR", help="the photos to copy")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="folder of the edited copies")],
    count: Annotated[int, Option(metavar="N", help="how many")] = 500,
    seed: Annotated[int, Option(metavar="N", help="another seed, other edits")] = 0,
    among: Annotated[Path | None, Option(metavar="CSV", help="choose only among the paths of its column path")] = None,
    repertoire: Annotated[
        Literal["easy", "hard"],
        Option(
            help="easy: one to three of crop, flip, rotate, colour, jpeg, overlay, border; hard: one to five of these "
            "and thirty others, screenshots, collages and memes among them"
        ),
    ] = "easy",
    distractors: Annotated[int, Option(metavar="N", help="edit N further pictures, which have no reference")] = 0,
    distractors_from: Annotated[
        Path | None, Option(metavar="DIR", help="the pictures to make distractors from")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make edited copies of photos, with the truth, to measure with."""
    from diptych_training.data.csv import read_column
    from diptych_training.data.edits import write_queries

    truth = write_queries(
        photos,
        out,
        count=count,
        seed=seed,
        among=read_column(among, "path") if among else None,
        repertoire=repertoire,
        distractors=distractors,
        distractors_from=distractors_from,
    )
    counted = f"{count} edited copies" + (f", {distractors} distractors" if distractors else "")
    Console(as_json, quiet).emit(
        {"queries": len(truth), "distractors": distractors, "truth": str(out / "truth.csv")},
        f"{counted} and truth.csv in {out}",
    )
    return 0


def unpack(
    archive: Annotated[
        str,
        Argument(
            metavar="ARCHIVE",
            help="clothing, flowers, goods, grocery, abo_samples, boofcv_views, cards_coins, lookalike_objects, "
            "openimages_doors, photos_cc0, screens, se_covers, sfm_sets or trashnet, in the folder named by "
            "DIPTYCH_DATA",
        ),
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="a new folder")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write the photos of a training archive into a folder, with its splits."""
    from diptych_training.data import archives

    splits = archives.unpack_archive(archives.data_folder(), archive, out)
    counted = ", ".join(f"{count} for {split}" for split, count in splits.items())
    Console(as_json, quiet).emit(splits, f"{sum(splits.values())} photos in {out}: {counted}")
    return 0
