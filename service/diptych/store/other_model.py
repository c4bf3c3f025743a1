"""A collection that another model embedded, or several, and the ways out of it."""

from collections.abc import Collection, Mapping
from pathlib import Path

from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import FORMER, find_artifact, models_by_name, named_model, names_by_revision
from diptych_runtime.paths import shell_word


def embedded_by(revisions: Mapping[str, int]) -> str:
    """The models of a collection's pictures, as a text, from {revision: pictures}."""
    known = names_by_revision(models_by_name())
    return ", ".join(
        f"{known[one]} ({n:,})" if one in known else f"{one} ({n:,}, {_explain_unknown(one)})"
        for one, n in revisions.items()
    )


def find_obstacle(revision: str, adopted: str | None) -> str | None:
    """The reason, as a text with the way out, why no command opens a collection that one revision embedded and that
    has `adopted` a model, by name or path, or None: that is not there, or another one, or the revision was released
    before. None where commands do, or where they name its model.
    """
    known = names_by_revision(models_by_name())
    # One that was moved away is found by its revision among the models here.
    if adopted is not None and (named_model(adopted) or Path(adopted).exists() or revision not in known):
        try:
            directory = find_artifact(adopted)
            manifest = Manifest.load(directory)
            for file in manifest.digests:
                manifest.read_checked(directory, file)
        except ArtifactError as error:
            return f"its model cannot be opened: {error}; put it back, or name another with `diptych models use`"
        if manifest.revision == revision:
            return None
        now = f"its model {adopted} is another one now ({manifest.revision}) than that which embedded it ({revision})"
        return f"{now}; `diptych index rebuild` embeds it anew"
    if revision not in FORMER or revision in known:
        return None
    return (
        f"embedded by {revision} ({_explain_unknown(revision)}); nothing can be searched until `diptych index rebuild`"
    )


def ways_out(store: object, revision: str, others: Collection[str], *, partly: bool = False) -> str:
    """The ways out, as a text, for a model of one revision and a store whose pictures are of `others`, all or
    `partly`.
    """
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
