"""Wrong arguments of the Python interface: an error of Diptych's own, which is a ValueError too."""

from math import nan

import pytest

from diptych import Collection, find_duplicates
from diptych.labelling.choose import pairs_to_label
from diptych_runtime.errors import ArgumentError, DiptychError

CALLS = {
    "one bare pair": lambda scorer, _, a, b: scorer.predict((a, b)),
    "a pair of three": lambda scorer, _, a, b: scorer.judge([(a, b, a)]),
    "a batch of none": lambda scorer, _, a, b: scorer.predict([(a, b)], batch_size=0),
    "the best none": lambda scorer, _, a, b: scorer.rank(a, [b], top_k=0),
    "documents that are one": lambda scorer, _, a, b: scorer.rank(a, b),
    "another shape": lambda scorer, _, a, b: scorer.predict([(a, b)], activation_fn=lambda logits: logits[:0]),
    "no matches": lambda _, collection, a, b: collection.search(a, top=0),
    "an early stop above 1": lambda _, collection, a, b: collection.search(a, early_stop=2.0),
    "no condition": lambda _, collection, a, b: collection.search(a, filter={"$size": 3}),
    "a list of none": lambda _, collection, a, b: collection.list(0),
    "a thumbnail of no pixels": lambda _, collection, a, b: collection.thumbnail(collection.list(1)[0].id, side=0),
    "metadata that are no JSON": lambda _, collection, a, b: collection.add(a, metadata={"price": nan}),
    "one path of two pictures": lambda _, collection, a, b: collection.add([a, b], path="a.jpg"),
    "a label of one picture": lambda _, collection, a, b: collection.label(*[collection.list(1)[0].id] * 2, "same"),
    "no address": lambda scorer, *_: Collection.open("redis://host", scorer),
    "no pairs": lambda _, collection, a, b: pairs_to_label(collection, 0),
    "a threshold above 1": lambda _, collection, a, b: find_duplicates(collection, threshold=1.5),
    "no candidates": lambda _, collection, a, b: find_duplicates(collection, candidates=0),
    "a reference of a collection": lambda _, collection, a, b: find_duplicates(collection, reference="photos"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_an_error_of_ours_and_a_value_error(call, scorer, collection, gallery):
    with pytest.raises(DiptychError) as error:
        CALLS[call](scorer, collection, str(gallery / "01.jpg"), str(gallery / "02.jpg"))
    assert isinstance(error.value, ArgumentError)
    assert isinstance(error.value, ValueError)
    assert error.value.code == "invalid_argument"
