"""A collection that another model embedded, and the ways out of it."""

from collections.abc import Collection

from diptych_runtime.models import models_by_name, names_by_revision


def ways_out(store: object, revision: str, others: Collection[str]) -> str:
    """The ways out, as a text, for a model of one revision and a store that has pictures of `others`."""
    known = names_by_revision(models_by_name())
    here = [known[other] for other in others if other in known]
    theirs = f"name theirs (--model {here[0]})" if here else "name theirs, which is none of the models here"
    model = known.get(revision, "MODEL")
    return f"embed them anew with `diptych index rebuild --store {store} --model {model}`, or {theirs}"
