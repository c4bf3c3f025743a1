"""The model that a collection was given by name, and the features that stay valid when it gets another one."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from diptych.store.sqlite.labels import Labels
from diptych_runtime.manifest import PANEL_GRAPH, Manifest
from diptych_runtime.parsing import parse_json


@dataclass(frozen=True)
class AdoptedModel:
    """The model of a collection: the `model` as it is opened, by name or by an absolute path, its `revision`, and the
    sha256 of its `panel` graph, which made the stored features.
    """

    model: str
    revision: str
    panel: str

    @classmethod
    def of(cls, model: str, released: Manifest) -> AdoptedModel:
        """A model by the name that it is opened by, and its manifest."""
        return cls(model, released.revision, released.digests[PANEL_GRAPH])


_ADOPTED = TypeAdapter(AdoptedModel)


class Adopted(Labels):
    """The model of a collection in its database; thread-safe. What a method wrote is on the disk when it returns."""

    def adopted_model(self) -> AdoptedModel | None:
        """The model that was adopted last; None where there is none, or where the pictures are of others since."""
        found = self._fetch_all("SELECT value FROM facts WHERE key='model'")
        if not found:
            return None
        try:
            known = _ADOPTED.validate_python(parse_json(found[0]["value"]))
        except (ValueError, TypeError):  # not written by Diptych: as good as none, and `models use` replaces it
            return None
        revisions = {row["revision"] for row in self._fetch_all("SELECT DISTINCT revision FROM pictures")}
        return known if not revisions or known.revision in revisions else None

    def adopt_model(self, model: AdoptedModel, same_panel: Collection[str]) -> int:
        """Make a model the collection's, in one transaction; return how many pictures keep their features.

        Those are the pictures of the revisions `same_panel`, whose panel graph is the model's too: they are of its
        revision from now on.
        """
        revisions = json.dumps(sorted(same_panel))
        of = "SELECT row FROM pictures WHERE revision IN (SELECT value FROM json_each(?))"
        with self._transaction() as connection:
            connection.execute(f"UPDATE digests SET revision=crc32(?) WHERE row IN ({of})", (model.revision, revisions))
            kept = connection.execute(
                f"UPDATE pictures SET revision=? WHERE row IN ({of})", (model.revision, revisions)
            ).rowcount
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('model', ?)", (json.dumps(asdict(model)),))
        return kept
