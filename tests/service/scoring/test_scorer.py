import io
import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from diptych import Scorer
from diptych.bench.demo.collection import draw_scenes
from diptych.scoring.scorer import best_first
from diptych_runtime.errors import ArtifactError, PictureError


@pytest.fixture
def pictures(photo_bytes):
    return [photo_bytes(seed, (40 + 7 * seed, 61)) for seed in range(5)]


def test_a_score_is_a_float32_probability_that_neither_the_order_nor_what_else_is_scored_changes_by_a_bit(
    scorer, pictures, monkeypatch
):
    encoded, encode = [], scorer.encode_pixels
    monkeypatch.setattr(scorer, "encode_pixels", lambda pixels: encoded.append(len(pixels)) or encode(pixels))
    pairs = [(a, b) for a in pictures for b in pictures]
    raw = scorer.predict(pairs, activation_fn=lambda logits: logits, batch_size=7)
    assert sum(encoded) == len(pictures), "each distinct picture is encoded once"
    turned = scorer.predict([(b, a) for a, b in pairs], activation_fn=np.asarray)
    alone = np.concatenate([scorer.predict([pair], activation_fn=np.asarray) for pair in pairs[:7]])
    assert raw.tobytes() == turned.tobytes()
    assert raw[:7].tobytes() == alone.tobytes()
    scores = scorer.predict(pairs)
    assert scores.shape == raw.shape == (25,)
    assert scores.dtype == raw.dtype == np.float32
    assert ((scores >= 0) & (scores <= 1)).all()
    apart = [place for place, (a, b) in enumerate(pairs) if a is not b]
    assert scores[apart].tobytes() == scorer.relevance(raw[apart]).tobytes()
    assert np.allclose(scorer.predict(pairs, activation_fn=lambda logits: 2 * logits), 2 * raw)
    with pytest.raises(ValueError, match=r"must return an array of the shape \(25,\), got \(\)"):
        scorer.predict(pairs, activation_fn=np.max)


def test_predict_and_encode_draw_a_bar_on_a_terminal_where_asked_to(scorer, pictures, monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stderr)
    scorer.predict(list(pairwise(pictures)))
    assert stderr.getvalue() == ""
    scorer.predict(list(pairwise(pictures)), show_progress_bar=True)
    scorer.encode(pictures[:3], show_progress_bar=True)
    assert all(told in stderr.getvalue() for told in ("4/4 pair", "3/3 picture"))


def test_rank_is_predict_sorted(scorer, pictures):
    query, documents = pictures[0], [*pictures[1:], pictures[0], pictures[0]]
    raw = scorer.predict([(query, document) for document in documents], activation_fn=np.asarray)
    ranking = scorer.rank(query, documents)
    same, others = ranking[:2], ranking[2:]
    assert [(one["corpus_id"], one["score"], one["verdict"]) for one in same] == [(4, 1.0, "same"), (5, 1.0, "same")]
    assert [entry["corpus_id"] for entry in others] == best_first(raw[:4]).tolist()
    assert [entry["raw_score"] for entry in others] == sorted(raw[:4].tolist(), reverse=True)
    assert set(ranking[0]) == {"corpus_id", "score", "raw_score", "verdict", "closer_look"}
    assert [entry["verdict"] for entry in ranking] == [scorer.verdict(entry["score"]) for entry in ranking]
    top = scorer.rank(query, documents, top_k=2, return_documents=True)
    assert [entry["corpus_id"] for entry in top] == [4, 5]
    assert all(entry["document"] is documents[entry["corpus_id"]] for entry in top)


def test_rank_goes_by_what_the_activation_function_makes_of_the_logits(scorer, pictures):
    raw = scorer.predict([(pictures[0], picture) for picture in pictures], activation_fn=np.asarray)
    ranking = scorer.rank(pictures[0], pictures, activation_fn=lambda logits: -logits)
    assert [entry["corpus_id"] for entry in ranking] == best_first(-raw).tolist()
    assert [entry["score"] for entry in ranking] == [-entry["raw_score"] for entry in ranking]
    assert scorer.rank(pictures[0], pictures, 2, activation_fn=lambda logits: -logits) == ranking[:2]


def test_embeddings_are_unit_vectors_whatever_the_batch_and_similarity_is_their_cosine(scorer, pictures):
    embeddings = scorer.encode(pictures)
    assert (embeddings.shape, embeddings.dtype) == ((5, scorer.runtime.embedding_dim), np.float32)
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    assert np.allclose(scorer.encode(pictures, batch_size=2), embeddings, atol=1e-6)
    assert np.allclose(scorer.similarity(embeddings, embeddings), embeddings @ embeddings.T, atol=1e-6)
    assert scorer.similarity(embeddings[0], embeddings).shape == (1, 5)


def test_verdicts_are_told_by_the_thresholds(scorer):
    for name, least in scorer.thresholds.items():
        assert scorer.verdict(least) == name
        assert scorer.verdict(np.nextafter(least, 0)) != name


def test_nothing_gives_empty_answers_and_what_is_wrong_is_named(scorer, pictures, bad_pictures, tmp_path):
    assert scorer.predict([]).shape == (0,)
    assert scorer.rank(pictures[0], []) == []
    assert scorer.judge([]) == []
    assert scorer.panels([]).embeddings.shape == (0, scorer.runtime.embedding_dim)
    for ask in (scorer.predict, scorer.encode):
        with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
            ask([], batch_size=0)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        scorer.rank(pictures[0], pictures, top_k=0)
    for path in bad_pictures.values():
        with pytest.raises(PictureError, match=path.name):
            scorer.predict([(pictures[0], path)])
    with pytest.raises(ArtifactError, match="neither a bundled model"):
        Scorer.load(str(tmp_path / "nothing"))


@pytest.fixture(scope="module")
def thing(artifact_of_two):
    return Scorer.load(str(artifact_of_two), provider="cpu", threads=1)


def test_a_scorer_that_is_asked_another_question_gives_its_column_and_shares_the_engine(thing, pictures):
    tokens = thing.panels(pictures).tokens
    columns = thing.runtime.logits_on_this_thread(tokens[:-1], tokens[1:])
    copy = thing.asking("copy")
    assert (thing.runtime.question, copy.runtime.question) == ("thing", "copy")
    assert (copy.scheduler, copy.decoder, copy.limits) == (thing.scheduler, thing.decoder, thing.limits)
    for column, asked in enumerate((copy, thing)):
        logits = asked.logits(tokens[:-1], tokens[1:])
        assert logits.tobytes() == columns[:, column].tobytes()
        assert asked.logits(tokens[1:], tokens[:-1]).tobytes() == logits.tobytes()
        question = thing.runtime.manifest.questions[asked.runtime.question]
        assert np.array_equal(asked.relevance(logits), question.relevance(logits))
    assert copy.asking("copy") is copy
    assert copy.asking(None) is copy
    assert thing.asking("thing") is thing


def test_predict_and_rank_ask_a_question_for_once_and_an_unknown_one_is_refused(thing, scorer, pictures):
    pairs, copy = list(pairwise(pictures)), thing.asking("copy")
    assert np.array_equal(thing.predict(pairs, question="copy"), copy.predict(pairs))
    assert np.array_equal(copy.predict(pairs, question="thing"), thing.predict(pairs))
    assert not np.array_equal(thing.predict(pairs), copy.predict(pairs))
    assert thing.rank(pictures[0], pictures, question="copy") == copy.rank(pictures[0], pictures)
    assert Scorer.load("omniglot", "copy", threads=1).runtime.question == "match"
    assert scorer.asking("copy") is scorer.asking("thing") is scorer, "of one question whatever is asked"
    with pytest.raises(ArtifactError, match="the model 'two' answers the questions copy, thing; got 'match'"):
        thing.predict(pairs, question="match")
    with pytest.raises(ArtifactError, match="the model 'tiny' answers the questions copy, thing, match; got 'colour'"):
        scorer.asking("colour")


@pytest.fixture(scope="module")
def looking(artifact_that_looks):
    """A scorer of copies whose model takes a closer look at every pair."""
    return Scorer.load(str(artifact_that_looks), "copy", provider="cpu", threads=1)


def test_a_closer_look_decides_what_predict_says_and_no_raw_score(looking, thing, tmp_path):
    scene, other = draw_scenes(2)
    pairs = [(scene, scene.resize((300, 220))), (scene, other)]
    alike, different = looking.predict(pairs)
    assert alike > 0.9 > 0.1 > different
    raw = looking.predict(pairs, activation_fn=np.asarray)
    assert raw.tolist() == thing.predict(pairs, activation_fn=np.asarray, question="copy").tolist()
    copy, other = (answers["copy"] for answers in looking.judge(pairs))
    assert (copy.verdict, other.verdict, copy.closer_look) == ("same", "different", "taken")
    assert [copy.relevance_score, other.relevance_score] == pytest.approx([alike, different], abs=1e-7)
    assert [copy.raw_score, other.raw_score] == raw.tolist()
    for name in ("a.png", "b.png"):
        scene.save(tmp_path / name)
    assert looking.predict([(tmp_path / "a.png", tmp_path / "b.png")])[0] == 1.0, "without a doubt"


def test_a_shorter_ranking_is_the_beginning_of_the_whole_one(looking):
    scene, *others = draw_scenes(4)
    documents = [*others, scene.resize((300, 220)), scene.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    whole = looking.rank(scene, documents)
    assert {entry["corpus_id"] for entry in whole[:2]} == {3, 4}
    assert (whole[0]["verdict"], whole[0]["closer_look"], whole[-1]["verdict"]) == ("same", "taken", "different")
    network = best_first(np.array([entry["raw_score"] for entry in whole])).tolist()
    assert network[:2] != [0, 1], "the look puts copies before what the network finds more alike"
    for top in (1, 3):
        assert looking.rank(scene, documents, top_k=top) == whole[:top]


def test_of_many_pairs_the_likeliest_are_looked_at_and_the_others_said_not_to_be(looking):
    scene, *others = draw_scenes(4)
    pictures = [scene, *others, scene.resize((300, 220))]
    pairs = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    tokens = looking.panels(pictures).tokens
    logits = looking.all_logits(tokens[pairs[:, 0]], tokens[pairs[:, 1]])
    asked = []

    def original(number):
        asked.append(number)
        return pictures[number]

    judged = looking.judge_pairs(logits, pairs, original, asked="copy", most=2)["copy"]
    first = best_first(logits[:, looking.runtime.column])[:2].tolist()
    assert [place for place, one in enumerate(judged) if one.closer_look == "taken"] == sorted(first)
    assert {one.closer_look for place, one in enumerate(judged) if place not in first} == {"not taken"}
    assert sorted(asked) == sorted({0, *pairs[first, 1].tolist()})
    assert "same" not in {one.verdict for one in judged if one.closer_look == "not taken"}
