"""A collection that another model embedded, or several, and the ways out of it."""

from collections.abc import Collection, Mapping

from diptych_runtime.models import FORMER, models_by_name, names_by_revision
from diptych_runtime.paths import shell_word


def embedded_by(revisions: Mapping[str, int]) -> str:
    """The models of a collection's pictures, as a text, from {revision: pictures}."""
    known = names_by_revision(models_by_name())
    return ", ".join(
        f"{known[one]} ({n:,})" if one in known else f"{one} ({n:,}, {_explain_unknown(one)})"
        for one, n in revisions.items()
    )


def ways_out(store: object, revision: str, others: Collection[str], *, partly: bool = False) -> str:
    """The ways out, as a text, of a store of `others`, all or `partly`, for a model of this revision."""
    known, where = names_by_revision(models_by_name()), shell_word(store)
    here = [shell_word(known[other]) for other in others if other in known]
    rebuild = f"`diptych index rebuild --store {where} --model {shell_word(known.get(revision, 'MODEL'))}`"
    if partly:
        either = f", or the same with --model {here[0]}" if here else ""
        return f"bring all to one: {rebuild}{either}; with --drop-missing it removes those whose files are gone"
    if here:
        return f"embed them anew with {rebuild}, or name theirs (--model {here[0]})"
    if former := [FORMER[other] for other in others if other in FORMER]:
        return f"that is an earlier release of {former[0]}: embed them anew with {rebuild}"
    use = f"`diptych models use PATH --store {where}`"
    return f"embed them anew with {rebuild}, or name theirs, which is none of the models here, once: {use}"


def _explain_unknown(revision: str) -> str:
    return f"an earlier release of {FORMER[revision]}" if revision in FORMER else "none of the models here"
