"""Another model for a collection: what was embedded stays where the panel graph is the same, and the rest is embedded
anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diptych.collection.rebuild import rebuild_collection
from diptych.scoring.scorer import Scorer
from diptych.store.embedder import OnFailure, OnProgress
from diptych.store.index.candidates import CandidateIndex
from diptych.store.reports import RebuildReport
from diptych.store.sqlite.adopted import AdoptedModel
from diptych.store.sqlite.database import Store
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import PANEL_GRAPH, Manifest
from diptych_runtime.models import models_by_name
from diptych_runtime.own_calibration import OwnCalibration, remove_calibration


@dataclass(frozen=True)
class Adoption:
    """The outcome of an adoption: `kept` pictures have the features they had, and `rebuilt` says what was embedded
    anew, None where nothing had to be. `calibration` is True if one's own, over the model before, was removed.
    """

    kept: int
    rebuilt: RebuildReport | None
    calibration: bool


def adopt_model(
    folder: Path,
    scorer: Scorer,
    model: str,
    *,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> Adoption:
    """Give the collection in a folder the scorer's model, which commands without `--model` open as `model` from now on.

    Where only the pair graph is another, tokens and embeddings stay, and pictures are of the new revision in one
    transaction. Others are embedded anew, which may be interrupted and run again. Scores of pairs are of a revision and
    go by themselves. Raises StoreError, also while another process writes to the collection.
    """
    released = scorer.runtime.released
    adopted = AdoptedModel.of(model, released)
    with Store.open(folder) as store:
        known = _list_panels(store.adopted_model())
        before = list(store.count_revisions())
        same = {revision for revision in before if known.get(revision) == adopted.panel} | {adopted.revision}
        whole = len(before) == 1 and before[0] in same
        index = CandidateIndex.open(store, released.embedding_dim, before[0]) if whole else None
        kept = store.adopt_model(adopted, same)
        others = store.count() - kept
        if index is not None:
            index.revision = adopted.revision
            index.save(store.directory)
    rebuilt = rebuild_collection(folder, scorer, on_error=on_error, on_progress=on_progress) if others else None
    return Adoption(kept, rebuilt, _drop_calibration(folder, released))


def _list_panels(adopted: AdoptedModel | None) -> Mapping[str, str]:
    """The sha256 of the panel graph of every model that is known here, by revision: bundled ones, one's own and the
    `adopted` one.
    """
    known = {} if adopted is None else {adopted.revision: adopted.panel}
    return known | {manifest.revision: manifest.digests[PANEL_GRAPH] for manifest in models_by_name().values()}


def _drop_calibration(folder: Path, released: Manifest) -> bool:
    """Remove the calibration of one's own if it was made over another model; True if it was."""
    try:
        own = OwnCalibration.load_beside(folder)
    except ArtifactError:
        return False  # a damaged one is named where it is used
    return own is not None and not own.fits(released) and remove_calibration(folder)
