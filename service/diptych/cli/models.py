"""`diptych models`: the models that are here, and another one for a collection."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Argument, Option

from diptych.cli.options import Provider, StoreFolder, Threads, check_store, open_scorer
from diptych.command_tree import Json, Quiet
from diptych.console import Console, format_count, format_section, format_table
from diptych_runtime.atomic import disk_bytes
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import MANIFEST, Manifest
from diptych_runtime.models import bundled_models, find_artifact, full_name, named_model, own_models, own_models_folder
from diptych_runtime.paths import given_path, shell_word

_CHECKPOINT = "config.json"  # in a checkpoint, which a run has as `best`


def list(as_json: Json = False, quiet: Quiet = False) -> int:
    """List the bundled models and your own."""
    found = [_describe_model(name, bundled=True) for name in bundled_models()]
    found += [_describe_model(name, bundled=False) for name in own_models()]
    rows = [
        (
            one["name"],
            one["revision"],
            ", ".join(one["questions"]) or one["error"],
            f"{one['bytes'] / 1e6:.1f} MB",
            "Diptych" if one["bundled"] else one["path"],
        )
        for one in found
    ]
    Console(as_json, quiet).emit(found, format_table(("model", "revision", "questions", "size", "from"), rows))
    return 0


def use(
    model: Annotated[
        str,
        Argument(
            parser=given_path,
            metavar="NAME|PATH",
            help="a model's name, an artifact, a checkpoint, or a run of `diptych train`",
        ),
    ],
    store: StoreFolder,
    name: Annotated[
        str | None, Option(metavar="NAME", help="of a checkpoint's artifact among your models", show_default="its own")
    ] = None,
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Give a collection another model.

    Pictures are embedded anew only if the panel part is another. No other process may write to the collection
    meanwhile. Exits with 1 if pictures could not be read.
    """
    from diptych.collection.rebuild import adopt_model
    from diptych.store.sqlite.database import Store

    console = Console(as_json, quiet)
    check_store(store)
    checkpoint = _find_checkpoint(model)
    if checkpoint is None:
        find_artifact(model)  # whose error knows names like this one
    else:
        Store.open(store).close()  # another process that writes to it is found before a minute of export
    opened = full_name(model) if checkpoint is None else _export_checkpoint(console, checkpoint, name)
    scorer = open_scorer(opened, provider, threads).with_calibration(None)
    failed: dict[str, str] = {}
    with console.progress(unit="picture", desc="embedding") as bar:
        done = adopt_model(
            store,
            scorer,
            opened,
            on_error=lambda record, error: failed.update({record.id: str(error)}),
            on_progress=bar.update,
        )
    runtime = scorer.runtime
    embedded = done.rebuilt.embedded if done.rebuilt else 0
    kept = f"{format_count(done.kept, 'picture')} {'keeps its' if done.kept == 1 else 'keep their'} features"
    lines = [f"{store}: model {opened} ({runtime.revision}); {kept}, {embedded:,} embedded anew"]
    lines.append(f"pairs are scored in {runtime.pair_path}")
    if done.calibration:
        lines.append("the calibration over the model before was removed; `diptych calibrate` makes one over this")
    lines += format_section(f"{len(failed)} could not be read and stay as they were:", failed.values())
    if failed:
        lines.append(
            f"put them back and run `diptych index rebuild --store {shell_word(store)}`, or add --drop-missing to it"
        )
    document = {"model": opened, "revision": runtime.revision, "store": str(store), "failures": failed, **asdict(done)}
    console.emit(document, "\n".join(lines))
    return 1 if failed else 0


def _describe_model(name: str, *, bundled: bool) -> dict[str, Any]:
    folder = find_artifact(name)
    known = {"name": name, "path": str(folder), "bundled": bundled, "bytes": disk_bytes(folder), "error": None}
    try:
        manifest = Manifest.load(folder)
    except ArtifactError as error:
        return known | {"revision": "", "questions": [], "error": str(error)}
    return known | {"revision": manifest.revision, "questions": [*manifest.questions]}


def _find_checkpoint(model: str) -> Path | None:
    """The checkpoint that is meant, if it is one: a run's best, or the directory itself."""
    if named_model(model) is not None:
        return None
    for folder in (Path(model), Path(model) / "best"):
        if (folder / _CHECKPOINT).is_file() and not (Path(model) / MANIFEST).is_file():
            return folder
    return None


def _export_checkpoint(console: Console, checkpoint: Path, name: str | None) -> str:
    """Export a checkpoint into the folder of one's own models; return its name there.

    The same revision is not kept twice, and another one of the name gets a number behind it.
    """
    asked = name or (checkpoint.absolute().parent.name if checkpoint.name == "best" else checkpoint.absolute().name)
    if not asked or asked.startswith(".") or Path(asked).name != asked:
        raise ArtifactError(f"expected a name for the model without slashes and a dot at its beginning, got {asked!r}")
    folder = own_models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    console.remark(f"exporting {checkpoint}, and comparing every way to run it (about a minute) ...")
    with TemporaryDirectory(prefix=".export-", dir=folder) as room:
        made = Path(room) / asked
        words = ["export", str(checkpoint), "-o", str(made), "--name", asked, "--weights", "--quiet"]
        done = subprocess.run([sys.executable, "-P", "-m", "diptych", *words], capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().removeprefix("error: ")
            raise ArtifactError(f"{checkpoint} could not be exported: {reason}")
        return _keep_under_free_name(made, asked)


def _keep_under_free_name(made: Path, asked: str) -> str:
    """Move an artifact among one's own models under a name that is free, or has the same revision already."""
    revision = Manifest.load(made).revision
    for number in count(1):
        name = asked if number == 1 else f"{asked}-{number}"
        target = own_models_folder() / name
        if name in bundled_models():
            continue
        if not target.exists():
            made.rename(target)
            return name
        if (target / MANIFEST).is_file() and Manifest.load(target).revision == revision:
            return name
    raise AssertionError  # numbers have no end
