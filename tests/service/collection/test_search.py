import json
import shutil
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diptych import Scorer
from diptych.collection.collection import Collection
from diptych.collection.search import rerank_order


@pytest.mark.parametrize(("looked_at", "total"), [(0, 5), (3, 5), (5, 5), (0, 0), (7, 11)])
def test_reranking_permutes_the_first_k_and_leaves_the_rest_untouched(looked_at, total):
    logits = np.random.default_rng(total).normal(size=looked_at).astype(np.float32)
    order = rerank_order(logits, total)
    assert sorted(order[:looked_at].tolist()) == list(range(looked_at))
    assert order[looked_at:].tolist() == list(range(looked_at, total))
    assert (np.diff(logits[order[:looked_at]]) <= 0).all()
    equals = np.array([1, 2, 1, 2, 1], np.float32)
    assert rerank_order(equals, 7).tolist() == [1, 3, 0, 2, 4, 5, 6], "equals keep their first-stage order"


def test_a_search_reranks_k_candidates_and_leaves_the_rest_in_first_stage_order(collection, photo_bytes):
    query = photo_bytes(20)
    first = collection.search(query, top=12, candidates=0)
    assert [match.id for match in first.matches] == [match.id for match in first.candidates]
    assert all(match.relevance_score is None and match.raw_score is None for match in first.matches)
    similarities = [match.similarity for match in first.matches]
    assert similarities == sorted(similarities, reverse=True)

    second = collection.search(query, top=12, candidates=5)
    assert [match.id for match in second.candidates] == [match.id for match in first.candidates]
    assert {match.id for match in second.matches[:5]} == {match.id for match in first.matches[:5]}
    assert [match.id for match in second.matches[5:]] == [match.id for match in first.matches[5:]]
    raw = [match.raw_score for match in second.matches[:5]]
    assert raw == sorted(raw, reverse=True)
    assert all(match.raw_score is None for match in second.matches[5:])
    assert [match.rank for match in second.matches] == list(range(1, 13))
    assert [match.first_rank for match in second.candidates] == list(range(1, 13))
    assert {match.id: match.rank for match in second.matches} == {match.id: match.rank for match in second.candidates}


def test_a_search_gives_the_scores_of_the_scorer(collection, scorer, photo_bytes):
    query = photo_bytes(20)
    everything = collection.search(query, top=12, candidates=12)
    assert list(everything.timings) == ["decode", "panel", "retrieve", "pair"]
    assert collection.search(query, top=2, candidates=12).matches == everything.matches[:2], "cut after re-ranking"
    for match in everything.matches[:5]:
        picture = collection.content(match.id)[0]
        assert match.raw_score == scorer.predict([(picture, query)], activation_fn=np.asarray)[0]
        assert match.relevance_score == scorer.predict([(query, picture)])[0]
        assert match.similarity == pytest.approx(
            float(scorer.panels([query]).embeddings[0] @ scorer.panels([picture]).embeddings[0]), abs=1e-6
        )


def test_enough_stops_at_the_candidate_that_makes_as_many_as_asked_for_and_leaves_the_rest_as_it_was(
    collection, photo_bytes
):
    query = photo_bytes(20)
    exact = collection.search(query, top=12, candidates=10)
    assert exact.reranked == 10
    by_place = sorted((match for match in exact.matches if match.raw_score is not None), key=lambda m: m.first_rank)
    relevance = [match.relevance_score for match in by_place]
    for top in (1, 3):
        for early_stop in (*relevance, 1.0):
            reached = [place for place, score in enumerate(relevance) if score >= early_stop]
            expected = reached[top - 1] + 1 if len(reached) >= top else 10
            found = collection.search(query, top=top, candidates=10, early_stop=early_stop)
            assert found.reranked == expected
            best = sorted(by_place[:expected], key=lambda match: -match.raw_score)
            assert [match.id for match in found.matches] == [match.id for match in best[:top]]


def test_a_search_finds_candidates_by_what_is_asked(artifact_of_two, photo_bytes, tmp_path):
    scorer = Scorer.load(str(artifact_of_two), provider="cpu", threads=1)
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        for number in range(12):
            collection.add(photo_bytes(number), keep_originals=True)
    for question in ("copy", "thing"):
        with Collection.open(tmp_path / "store", scorer.asking(question)) as asked:
            for match in asked.search(photo_bytes(20), top=12, candidates=0).matches:
                stored = scorer.panels([asked.content(match.id)[0]]).embeddings[0]
                query = asked.scorer.runtime.weight_queries(scorer.panels([photo_bytes(20)]).embeddings)[0]
                assert match.similarity == pytest.approx(float(query @ stored), abs=1e-6)


@pytest.fixture
def asking(artifact, tmp_path):
    """`asking(crops=0.6)` is a scorer of the same model, whose question is searched for in another way."""

    def load(**settings: float) -> Scorer:
        folder = shutil.copytree(artifact, tmp_path / "asking")
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["questions"]["match"] |= settings
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return Scorer.load(str(folder), provider="cpu", threads=1)

    return load


def pasted(photo: bytes) -> Image.Image:
    """A photo in the corner of a larger picture of noise."""
    noise = np.random.default_rng(0).integers(0, 255, (300, 400, 3), np.uint8)
    canvas = Image.fromarray(noise)
    canvas.paste(Image.open(BytesIO(photo)).resize((240, 180)), (0, 0))
    return canvas


def test_a_query_is_looked_for_in_its_crops_and_the_better_look_counts(collection, photo_bytes, asking):
    query = pasted(photo_bytes(3))
    plain = collection.scorer
    cropped = asking(crops=0.6)
    whole = Collection(collection.backend, plain).search(query, top=12, candidates=12)
    found = Collection(collection.backend, cropped).search(query, top=12, candidates=12)
    views = plain.encode_pixels(cropped.query_pixels(query))
    assert len(views.embeddings) == 6
    by_id = {match.id: match for match in whole.matches}
    better = 0
    for match in found.matches:
        tokens, embedding = collection.panel(match.id)
        cosines = plain.runtime.weight_queries(views.embeddings) @ embedding
        assert match.similarity == pytest.approx(float(cosines.max()), abs=1e-6)
        once, best = by_id[match.id].raw_score, match.raw_score
        assert once is not None
        assert best is not None
        looks = [once]
        if view := int(cosines.argmax()):
            looks.append(float(plain.logits(views.tokens[view][None], tokens[None])[0]))
        assert best == max(looks)
        better += best > once
    assert better, "no crop saw more than the whole"


def test_a_relevance_is_held_against_the_rivals_in_the_list_and_the_score_of_the_pair_is_not(
    scorer, photo_bytes, tmp_path, asking
):
    held = asking(cohort=1.0, level=-3.0)
    with Collection.open(tmp_path / "many", scorer, create=True) as many:
        for seed in range(20):
            many.add(photo_bytes(seed))
        query = photo_bytes(3)
        plain = Collection(many.backend, scorer).search(query, top=20, candidates=20).matches
        among = Collection(many.backend, held).search(query, top=20, candidates=20).matches
        stopped = Collection(many.backend, held).search(query, top=20, candidates=20, early_stop=1.0).matches
    assert [(match.id, match.raw_score) for match in among] == [(match.id, match.raw_score) for match in plain]
    raw = np.array([match.raw_score for match in plain], np.float32)
    shift = np.clip(raw[5:15].mean() + 3.0, -3, 3)
    assert abs(shift) > 0.1
    same, *relevance = [match.relevance_score for match in among]
    assert same == 1.0, "the query itself is held against none"
    assert relevance == pytest.approx(scorer.relevance(raw - shift)[1:].tolist(), abs=1e-6)
    assert [match.relevance_score for match in stopped] == [match.relevance_score for match in plain]


def test_the_query_itself_is_the_same_though_its_file_is_gone(scorer, tmp_path, photo_bytes):
    query = tmp_path / "query.jpg"
    query.write_bytes(photo_bytes(3))
    with Collection.open(tmp_path / "many", scorer, create=True) as many:
        for seed in range(5):
            many.add(photo_bytes(seed))  # whose bytes are not kept
        for source in (query, photo_bytes(3)):
            best = many.search(source, top=3).matches[0]
            assert (best.relevance_score, best.verdict, best.closer_look) == (1.0, "same", None)
