"""The ways out of a collection that another model embedded."""

from diptych.store.other_model import embedded_by, ways_out
from diptych_runtime.models import FORMER, models_by_name


def test_the_models_are_named_by_which_it_is_rebuilt_and_by_which_it_can_be_searched_as_it_is() -> None:
    photo, small = (models_by_name()[name] for name in ("photo", "photo-small"))
    rebuilt = "embed them anew with `diptych index rebuild --store s --model photo-small`"
    assert ways_out("s", small.revision, [photo.revision]) == f"{rebuilt}, or name theirs (--model photo)"
    assert (
        ways_out("s", small.revision, ["0123456789ab"])
        == f"{rebuilt}, or name theirs, which is none of the models here, once: `diptych models use PATH --store s`"
    )
    former = ways_out("s", photo.revision, ["890d5beb348c"])
    assert former == f"that is an earlier release of photo: {rebuilt.replace('photo-small', 'photo')}"
    partly = ways_out("s", small.revision, [photo.revision], partly=True)
    assert partly.startswith(f"bring all to one: {rebuilt.partition(' with ')[2]}, or the same with --model photo; ")
    assert "--model MODEL`" in ways_out("s", "0123456789ab", [photo.revision])  # an artifact of one's own


def test_a_revision_of_an_earlier_release_is_named_as_what_it_was_of() -> None:
    told = embedded_by({"890d5beb348c": 3, "0123456789ab": 1})
    assert told == "890d5beb348c (3, an earlier release of photo), 0123456789ab (1, none of the models here)"
    assert FORMER.keys().isdisjoint(manifest.revision for manifest in models_by_name().values())
