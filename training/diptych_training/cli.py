"""The subcommands of this package: train, edit, unpack; bench, study and evaluate have files of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

from diptych.console import Subparsers, command, emit
from diptych_training.benchmarks import cli as bench
from diptych_training.evaluation import cli as evaluation
from diptych_training.studies import cli as study


def register(subparsers: Subparsers) -> None:
    """Add all of them to the command line."""
    bench.register(subparsers)
    study.register(subparsers)
    evaluation.register(subparsers)
    parser = command(subparsers, "train", "train a pair network from a recipe", train)
    parser.add_argument("recipe", type=Path, metavar="RUN.toml", help="the recipe; training/recipes/ has examples")
    parser.add_argument("--out", "-o", type=Path, help="directory of the run (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="go on from the run's last saved state")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change the recipe: learning.rate=1e-3, stages.0.steps=60, network.relation=siamese (repeatable)",
    )

    parser = command(subparsers, "edit", "make edited copies of photos, with the truth, to measure with", edit)
    parser.add_argument("photos", type=Path, metavar="DIR", help="the photos to copy")
    parser.add_argument("--out", "-o", type=Path, required=True, metavar="DIR", help="folder of the edited copies")
    parser.add_argument("--count", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other edits (default: 0)")
    parser.add_argument("--among", type=Path, metavar="CSV", help="choose only among the paths of its column path")
    parser.add_argument(
        "--repertoire",
        choices=["easy", "hard"],
        default="easy",
        help="easy: one to three of crop, flip, rotate, colour, jpeg, overlay, border; "
        "hard: one to five of these and thirty others, screenshots, collages and memes among them (default: easy)",
    )
    parser.add_argument(
        "--distractors", type=int, default=0, metavar="N", help="edit N further pictures, which have no reference"
    )
    parser.add_argument("--distractors-from", type=Path, metavar="DIR", help="the pictures to make distractors from")
    parser.add_argument(
        "--backgrounds",
        type=Path,
        metavar="DIR",
        help="photos to paste into and set beside (hard; default: drawn ones)",
    )
    parser.add_argument(
        "--emoji", type=Path, metavar="ZIP", help="PNG files to stick on: a path, or a file in DIPTYCH_DATA (hard)"
    )

    parser = command(
        subparsers, "unpack", "write the photos of a training archive into a folder, with its splits", unpack
    )
    parser.add_argument(
        "archive",
        help="clothing, flowers, goods, grocery, abo_samples, boofcv_views, cards_coins, lookalike_objects, "
        "openimages_doors, photos_cc0, screens, se_covers, sfm_sets or trashnet, in the folder named by DIPTYCH_DATA",
    )
    parser.add_argument("--out", "-o", type=Path, required=True, metavar="DIR", help="a new folder")


def train(args: argparse.Namespace) -> int:
    """`diptych train RUN.toml`."""
    try:
        from diptych_training.learning import run
        from diptych_training.learning.distributed import is_first
        from diptych_training.recipe import read_recipe
    except ImportError as error:
        from diptych_training.errors import DataError

        raise DataError(f"training needs `pip install 'diptych[train]'`: {error}") from None
    recipe = read_recipe(args.recipe, args.set)
    directory = args.out or Path("runs") / recipe.name
    measured = run.train(recipe, directory, resume=args.resume, quiet=args.quiet or args.json)
    best = directory / run.BEST
    if not is_first():
        return 0
    emit(
        args,
        {"checkpoint": str(best), "metrics": measured},
        f"best checkpoint: {best}\nnext: diptych export {best} -o artifact",
    )
    return 0


def edit(args: argparse.Namespace) -> int:
    """`diptych edit DIR -o QUERIES`: edited copies and `truth.csv`."""
    from diptych_training.data.csv import read_column
    from diptych_training.data.edits import write_queries

    among = None
    if args.among:
        among = read_column(args.among, "path")
    truth = write_queries(
        args.photos,
        args.out,
        count=args.count,
        seed=args.seed,
        among=among,
        repertoire=args.repertoire,
        distractors=args.distractors,
        distractors_from=args.distractors_from,
        backgrounds=args.backgrounds,
        emoji=args.emoji,
    )
    counted = f"{args.count} edited copies" + (f", {args.distractors} distractors" if args.distractors else "")
    emit(
        args,
        {"queries": len(truth), "distractors": args.distractors, "truth": str(args.out / "truth.csv")},
        f"{counted} and truth.csv in {args.out}",
    )
    return 0


def unpack(args: argparse.Namespace) -> int:
    """`diptych unpack ARCHIVE -o DIR`: photos and one CSV a split."""
    from diptych_training.data import archives

    splits = archives.unpack(archives.data_folder(), args.archive, args.out)
    counted = ", ".join(f"{count} for {split}" for split, count in splits.items())
    emit(args, splits, f"{sum(splits.values())} photos in {args.out}: {counted}")
    return 0
