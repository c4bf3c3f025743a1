"""The ways out of a collection that another model embedded."""

from diptych.store.other_model import ways_out
from diptych_runtime.models import models_by_name


def test_the_models_are_named_by_which_it_is_rebuilt_and_by_which_it_can_be_searched_as_it_is() -> None:
    photo, small = (models_by_name()[name] for name in ("photo", "photo-small"))
    rebuilt = "embed them anew with `diptych index rebuild --store s --model photo-small`"
    assert ways_out("s", small.revision, [photo.revision]) == f"{rebuilt}, or name theirs (--model photo)"
    assert (
        ways_out("s", small.revision, ["be2aa7b1acc8"])
        == f"{rebuilt}, or name theirs, which is none of the models here (--model PATH)"
    )
    partly = ways_out("s", small.revision, [photo.revision], partly=True)
    assert partly.startswith(f"bring all to one: {rebuilt.partition(' with ')[2]}, or the same with --model photo; ")
    assert "--model MODEL`" in ways_out("s", "0123456789ab", [photo.revision])  # an artifact of one's own
