"""What a route has at hand: pictures of a request as tokens, and the words of a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from diptych.collection.registry import Collections
from diptych.errors import UnknownPictureError
from diptych.http.context import Context, known, positioned
from diptych.http.metrics import Metrics
from diptych.http.middleware.errors import RequestError
from diptych.http.request_pool import RequestPool
from diptych.http.schemas.images import InlineImage, StoredImage
from diptych.http.settings import Settings
from diptych_runtime.errors import PictureError


@pytest.fixture(scope="module")
def here(shelf, scorer) -> Context:
    return _context(scorer, Collections.of(shelf))


@pytest.fixture(scope="module")
def bare(scorer) -> Context:
    """A service without a collection."""
    return _context(scorer, Collections.of(None))


def _context(scorer, collections: Collections) -> Context:
    return Context(scorer, collections, Settings(), RequestPool(1, 1), RequestPool(1, 1), Metrics(scorer, collections))


def test_sent_and_stored_pictures_may_be_mixed_and_come_back_in_their_order(here, shelf, scorer, photo_bytes, data_uri):
    stored = [record.id for record in shelf.list(5)]
    pictures = [
        ("a", data_uri(photo_bytes(11))),
        ("b", StoredImage(id=stored[3])),
        ("c", InlineImage(image=data_uri(photo_bytes(12)))),
        ("d", StoredImage(id=stored[0])),
        ("e", StoredImage(id=stored[3])),
    ]
    found = here.panels(pictures, None)
    sent = scorer.panels([photo_bytes(11), photo_bytes(12)])
    kept = [shelf.panel(stored[place]) for place in (3, 0, 3)]
    for part in (0, 1):
        assert np.array_equal(found[part][[0, 2]], sent[part])
        assert np.array_equal(found[part][[1, 3, 4]], np.stack([panel[part] for panel in kept]))
    assert here.panels([], None).tokens.shape == (0, *scorer.runtime.token_shape)


def test_of_several_bad_pictures_the_first_is_named(here, photo_bytes, data_uri, refused):
    good, text, cut = data_uri(photo_bytes(1)), data_uri(refused["text"][0]), data_uri(refused["truncated"][0])
    with pytest.raises(RequestError, match="is not in a format that can be read") as caught:
        here.panels([("input[0]", good), ("input[1]", text), ("input[2]", cut)], None)
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "invalid_picture", "input[1]")
    assert str(caught.value).startswith("input[1] ")


def test_the_bytes_behind_a_picture_are_those_sent_or_those_kept(here, bare, shelf, photo_bytes, data_uri):
    assert here.picture_bytes(StoredImage(id=shelf.list(3)[2].id), "image", None) == photo_bytes(2)
    assert bare.picture_bytes(data_uri(b"anything"), "image", None) == b"anything"


def test_errors_of_the_library_get_the_place_in_the_request_and_others_are_let_through():
    with pytest.raises(RequestError, match="query: gone") as caught, known("query"):
        raise UnknownPictureError("gone")
    assert caught.value.param == "query"
    with pytest.raises(RequestError, match="damaged") as caught, positioned("image[3]"):
        raise PictureError("image[3] is damaged")
    assert (caught.value.param, caught.value.status) == ("image[3]", 422)
    for guard in (known, positioned):
        with pytest.raises(ZeroDivisionError), guard("query"):
            raise ZeroDivisionError
