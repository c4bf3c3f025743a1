"""`diptych index stats`: what a collection holds, and by what it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.cli.options import Store
from diptych.command_tree import Json, Quiet
from diptych.console import Console, byte_size, counted

if TYPE_CHECKING:
    from diptych_runtime.manifest import Manifest


def stats(
    store: Store,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show the pictures, model, index and size of a collection.

    Works while another process writes to the collection, and needs no model: its name is that of the bundled model, or
    of your own, that has the revision.
    """
    from diptych.store.open import open_store
    from diptych_runtime.models import FORMER, models_by_name, names_by_revision

    known = models_by_name()
    names = names_by_revision(known)
    said = {revision: f"an earlier release of {name}" for revision, name in FORMER.items()} | names
    with open_store(store, read_only=True) as backend:
        found = {**backend.stats(), "index": backend.index_facts()}
    found["calibration"] = calibration = _calibration(backend.folder, found["revisions"], known)
    found["models"] = {revision: names.get(revision) for revision in found["revisions"]}
    if found.get("adopted") and len(found["revisions"]) == 1:
        said = dict.fromkeys(found["revisions"], Path(found["adopted"]).name) | said
    models = [
        f"{said.get(revision, 'not here by name')} ({revision}), {counted(count, 'picture')}"
        for revision, count in found["revisions"].items()
    ]
    lines = [
        f"{found['directory']}",
        f"  pictures  {found['pictures']:,} ({found['kept']:,} with their bytes)",
        f"  model     {'; '.join(models) or 'none yet'}",
        *([f"  adopted   {found['adopted']}"] if found.get("adopted") else []),
        f"  verdicts  {_calibration_text(calibration)}",
        *([f"  changes   {found['sequence']:,}"] if "sequence" in found else []),
        f"  index     {laid_out(found['index'])}",
        *([f"  on disk   {byte_size(found['disk_bytes'])}"] if "disk_bytes" in found else []),
        *([f"  server    {found['server']}"] if "server" in found else []),
        *([f"  originals {found['originals'] or 'not kept'}"] if "originals" in found else []),
    ]
    Console(as_json, quiet).emit(found, "\n".join(lines))
    return 0


def _calibration(
    folder: Path | None, revisions: Mapping[str, int], models: Mapping[str, Manifest]
) -> dict[str, Any] | None:
    """The calibration in the folder of a collection, and whether commands take it: not one over another model."""
    from diptych_runtime.errors import ArtifactError
    from diptych_runtime.own_calibration import OwnCalibration

    try:
        own = None if folder is None else OwnCalibration.beside(folder)
        if own is None:
            return None
        of_model = [manifest for manifest in models.values() if manifest.revision == own.revision]
        fitting = [own.over(manifest) for manifest in of_model if own.fits(manifest)]
    except ArtifactError as error:
        return {"in_force": False, "error": str(error)}
    return {
        "made": own.made,
        "model": own.model,
        "revision": own.revision,
        "questions": {name: {"same": one.same, "different": one.different} for name, one in own.questions.items()},
        "in_force": bool(fitting or not of_model) and (not revisions or own.revision in revisions),
    }


def _calibration_text(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "as released"
    if "error" in found:
        return found["error"]
    labels = [
        f"{question}: {counted(one['same'], 'label')} same, {one['different']} different"
        for question, one in found["questions"].items()
    ]
    if not found["in_force"]:
        return (
            f"as released; the calibration of {found['made']} was made over another model ({found['model']}, "
            f"{found['revision']}) and is left out"
        )
    return f"by the collection's own calibration of {found['made']} ({'; '.join(labels)})"


def laid_out(index: Mapping[str, Any]) -> str:
    """The layout of an index in words, with the kind that was `asked` for."""
    if "kind" not in index:
        shown = "none saved yet"
    elif index["kind"] in ("exact", "hnsw"):
        shown = index["kind"]
    else:
        shown = f"ivf, {index['lists']:,} lists, {index['recall']:.1%} of the exact candidates when it was made"
    return shown if index["asked"] == "auto" else f"{shown} ({index['asked']} asked for)"
