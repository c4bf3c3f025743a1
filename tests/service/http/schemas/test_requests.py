"""The models of what is asked: unknown keys, other names for a key, and text that is none."""

from __future__ import annotations

import contextlib

import pytest
from pydantic import ValidationError

from diptych.http.schemas import requests
from diptych.http.schemas.base import Strict, names_of
from diptych.http.schemas.requests import (
    AddRequest,
    EmbeddingRequest,
    RerankRequest,
    ScoreRequest,
    SearchRequest,
)

MODELS = [value for value in vars(requests).values() if isinstance(value, type) and issubclass(value, Strict)]
DOT = "AAAA"


def refusal(model: type[Strict], value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    return str(caught.value.errors()[0]["msg"])


def test_no_model_takes_a_key_it_does_not_know():
    assert len(MODELS) >= 9
    for model in MODELS:
        assert 'unknown key "zzz"; known are ' in refusal(model, {"zzz": 1}) or model is Strict
        assert model.model_config.get("extra") == "forbid"


def test_a_value_of_any_type_under_any_key_is_taken_or_refused_and_nothing_else():
    values = (None, True, 0, -1.5, 1e300, float("inf"), "", "true", "\0", [], [[]], [None], [{}], {}, {"content": {}})
    for model in MODELS:
        keys = {key for name, field in model.model_fields.items() for key in names_of(name, field)}
        for key in keys | {"zzz"}:
            for value in values:
                with contextlib.suppress(ValidationError):
                    model.model_validate({key: value})


@pytest.mark.parametrize(
    ("model", "key", "meant"),
    [
        (ScoreRequest, "query", "queries"),
        (ScoreRequest, "text1", "text_1"),
        (RerankRequest, "top_k", "top_n"),
        (RerankRequest, "document", "documents"),
        (EmbeddingRequest, "inputs", "input"),
        (SearchRequest, "candidate", "candidates"),
        (AddRequest, "meta_data", "metadata"),
    ],
)
def test_a_misspelt_key_is_answered_with_the_one_that_was_meant(model, key, meant):
    assert refusal(model, {key: DOT}) == f'unknown key "{key}"; did you mean "{meant}"?'


def test_a_key_like_no_other_is_answered_with_all_that_are_known_also_under_their_other_names():
    known = "candidates, collection, early_stop, filter, image, model, question, top, user"
    for key in ("zzz", "query"):  # the second is near to "user", which nobody means by it
        assert refusal(SearchRequest, {key: 1}) == f'unknown key "{key}"; known are {known}'
    long = refusal(AddRequest, {"x" * 1000: 1})
    assert len(long) < 150


def test_a_key_under_both_of_its_names_is_refused_and_either_one_will_do():
    both = {"images": DOT, "input": DOT}
    with pytest.raises(ValidationError):
        EmbeddingRequest.model_validate(both)
    assert [EmbeddingRequest.model_validate({key: DOT}).images for key in both] == [DOT, DOT]
    assert ScoreRequest.model_validate({"text_1": DOT, "documents": DOT}).queries == DOT


def test_half_a_surrogate_pair_is_refused_wherever_it_would_come_back():
    for key in ("model", "user"):
        said = refusal(RerankRequest, {"query": DOT, "documents": DOT, key: "a\ud800"})
        assert said == f"{key} has half of a surrogate pair, which is no text"
    for picture in ({"id": "\ud800"}, {"type": "image_url", "image_url": {"url": DOT, "detail": "\udfff"}}):
        assert "half of a surrogate pair" in refusal(AddRequest, {"image": picture})
    assert SearchRequest.model_validate({"image": DOT, "user": "späße 🦊"}).user == "späße 🦊"


@pytest.mark.parametrize("number", [0, -1, 2.5, "many", float("nan"), None])
def test_a_number_of_matches_is_a_whole_number_of_at_least_one(number):
    assert refusal(SearchRequest, {"image": DOT, "top": number})
