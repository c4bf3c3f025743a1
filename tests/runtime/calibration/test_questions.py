"""The questions of a model, as values and as views of one runtime."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from diptych_export.parity import drawn_pixels
from diptych_runtime.calibration.questions import default_question, resolve_question, upgrade_to_questions
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import PAIR_CHUNK, Runtime

SIZES = (*range(1, PAIR_CHUNK + 2), 17, 23)


@pytest.fixture(scope="module")
def runtime(artifact_of_two):
    return Runtime.open(artifact_of_two, provider="cpu", threads=1, kernel="off")


@pytest.fixture(scope="module")
def tokens(runtime):
    return runtime.encode(drawn_pixels(max(SIZES) + 1, runtime.panel_size, seed=3)).tokens


def test_one_calibration_for_all_becomes_that_of_the_one_question_and_other_keys_stay():
    old = {"calibration": {"scale": 2.0, "offset": 1.0}, "thresholds": {"0.01": 0.9}, "metrics": {"seen": 3}}
    match = {"scale": 2.0, "offset": 1.0, "thresholds": {"0.01": 0.9}}
    assert upgrade_to_questions(old) == {"questions": {"match": match}, "metrics": {"seen": 3}}
    assert upgrade_to_questions(upgrade_to_questions(old)) == upgrade_to_questions(old)
    assert upgrade_to_questions({}) == {"questions": {"match": {"scale": 1.0, "offset": 0.0, "thresholds": {}}}}
    with pytest.raises(ValueError, match="calibration must be a positive 'scale' and an 'offset', got"):
        upgrade_to_questions({"calibration": {"offset": 1.0}})


def test_a_model_of_one_question_answers_any_with_it_and_others_only_their_own():
    for asked in ("copy", "thing", "match"):
        assert resolve_question(asked, ["match"], "old") == "match"
    assert resolve_question("copy", ["copy", "thing"], "new") == "copy"
    assert (default_question(["copy", "thing"]), default_question(["match"])) == ("thing", "match")
    with pytest.raises(ArtifactError, match="the model 'old' answers the questions copy, thing, match; got 'colour'"):
        resolve_question("colour", ["match"], "old")
    with pytest.raises(ArtifactError, match="the model 'new' answers the questions copy, thing; got 'match'"):
        resolve_question("match", ["copy", "thing"], "new")


def test_the_views_of_a_runtime_give_the_columns_of_its_logits_which_are_those_of_torch(
    runtime, tokens, tiny_network_of_two
):
    a, b = tokens[:17], np.roll(tokens[:17], 5, 0)
    assert (runtime.questions, runtime.question) == (("copy", "thing"), "thing")
    columns = runtime.logits_on_this_thread(*runtime.broadcast_pairs(a, b))
    assert (columns.shape, columns.dtype) == ((17, 2), np.float32)
    with torch.no_grad():
        expected = tiny_network_of_two.pair(torch.from_numpy(a).float(), torch.from_numpy(b).float())
    np.testing.assert_allclose(columns, expected, atol=1e-5)
    for column, name in enumerate(runtime.questions):
        view = runtime.asking(name)
        assert (view.question, view.column) == (name, column)
        assert np.array_equal(view.pair_logits(a, b), columns[:, column])
        assert view.thresholds == view.manifest.questions[name].thresholds
        expected = view.manifest.questions[name].relevance(columns[:, column])
        assert np.array_equal(view.relevance(columns[:, column]), expected)
    assert not np.array_equal(columns[:, 0], columns[:, 1])
    assert runtime.asking("copy").relevance(np.zeros(1))[0] == pytest.approx(1 / (1 + np.exp(1.25)))


def test_asking_twice_or_nothing_is_the_same_and_views_share_their_sessions(runtime, tokens):
    copy = runtime.asking("copy")
    assert copy.asking("copy") is copy
    assert copy.asking(None) is copy
    assert runtime.asking("thing") is runtime
    assert copy.asking("thing").question == runtime.question == "thing"
    assert copy._pair is runtime._pair
    copy.attention(tokens[:1], tokens[1:2])
    assert copy._explain() is runtime._explain()


@pytest.mark.parametrize("kernel", ["off", "auto"])
def test_no_column_has_a_trace_of_batch_mates_or_order(kernel, artifact_of_two, tokens):
    opened = Runtime.open(artifact_of_two, provider="cpu", threads=2, kernel=kernel)
    alone = np.concatenate([opened.logits_on_this_thread(a[None], b[None]) for a, b in pairwise(tokens)])
    for size in SIZES:
        first, second = tokens[:size], tokens[1 : size + 1]
        for column, name in enumerate(opened.questions):
            logits = opened.asking(name).pair_logits(first, second)
            assert logits.tobytes() == alone[:size, column].tobytes(), (name, size)
        assert opened.logits_on_this_thread(second, first).tobytes() == alone[:size].tobytes(), size


def test_each_question_weighs_the_parts_of_a_query_s_embedding_and_the_stored_ones_stay(runtime):
    embeddings = runtime.encode(drawn_pixels(7, runtime.panel_size, seed=3)).embeddings
    halves = np.split(embeddings, 2, axis=1)
    cosines = [2 * half @ half.T for half in halves]
    for question, (copy, thing) in {"copy": (0.9, 0.1), "thing": (0.1, 0.9)}.items():
        found = runtime.asking(question).weight_queries(embeddings) @ embeddings.T
        np.testing.assert_allclose(found, copy * cosines[0] + thing * cosines[1], atol=1e-6)
        np.testing.assert_allclose(found.diagonal(), 1, atol=1e-6)
    assert Question().weight_queries(embeddings) is embeddings
