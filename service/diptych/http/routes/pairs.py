"""Scores, rankings and embeddings of pictures that come with the request."""

from __future__ import annotations

import base64
import time
from dataclasses import asdict
from enum import Enum

import numpy as np
from fastapi import APIRouter, Request

from diptych.http.bodies import describe_body
from diptych.http.context import Context, Here, Proven
from diptych.http.middleware.errors import ERRORS, RequestError
from diptych.http.schemas.pictures import Picture, Upload, check_count, list_pictures
from diptych.http.schemas.requests import EmbeddingRequest, ExplainRequest, RerankRequest, ScoreRequest
from diptych.http.schemas.responses import (
    AnswerItem,
    EmbeddingAnswer,
    EmbeddingItem,
    ExplainAnswer,
    LinkItem,
    RerankAnswer,
    RerankItem,
    ScoreAnswer,
    ScoreItem,
    TextRank,
    Usage,
)
from diptych.scoring import explanation
from diptych.scoring.scorer import Scorer

OURS: list[str | Enum] = ["pictures in the request"]
THEIRS: list[str | Enum] = ["where other services have it"]
_SCORE = describe_body(ScoreRequest, form=True)
_RERANK = describe_body(RerankRequest, form=True)
_EXPLAIN = describe_body(ExplainRequest, form=True)
_EMBEDDINGS = describe_body(EmbeddingRequest, form=True)

router = APIRouter(dependencies=[Proven], responses=ERRORS)


@router.post("/v1/score", summary="Score pairs", tags=OURS, openapi_extra=_SCORE)
@router.post("/score", summary="/v1/score, as in vLLM", tags=THEIRS, openapi_extra=_SCORE)
async def score(here: Here, request: Request) -> ScoreAnswer:
    """The score of each pair of a query and a document, in vLLM's form: to the `question` that is asked, and in
    `answers` to every question that the model answers.

    One query meets every document; as many queries as documents are paired in order. The order of the two pictures of
    a pair does not change its score. With files: `curl -F queries=@a.jpg -F documents=@b.jpg .../v1/score`.
    """
    limit = here.settings.pictures
    body = await here.read_request(request, ScoreRequest, form=True)
    scorer = here.choose_scorer(body)
    queries = list_pictures(body.queries, body.key_of("queries"), limit)
    documents = list_pictures(body.documents, body.key_of("documents"), limit)
    check_count(len(queries) + len(documents), "queries and documents together", limit)
    if len(queries) not in (1, len(documents)):
        message = f"Expected one query or one a document, got {len(queries)} queries and {len(documents)} documents."
        raise RequestError(422, "pairing_mismatch", message, param="queries")

    def score_pairs() -> list[ScoreItem]:
        (tokens, _), original, contents = here.load_panels([*queries, *documents], body.collection)
        logits = here.score_logits(scorer, tokens[: len(queries)], tokens[len(queries) :])
        judged = scorer.judge_pairs(logits, _pair_places(len(queries), len(documents)), original, contents)
        return [
            ScoreItem(
                index=index,
                score=asked.raw_score if body.is_raw else asked.relevance_score,
                raw_score=asked.raw_score,
                verdict=asked.verdict,
                closer_look=asked.closer_look,
                answers={question: AnswerItem.model_validate(made[index]) for question, made in judged.items()},
            )
            for index, asked in enumerate(judged[scorer.runtime.question])
        ]

    return ScoreAnswer(
        data=await here.work.run(score_pairs, request),
        created=int(time.time()),
        usage=_count_usage(scorer, len(queries) + len(documents), len(documents)),
        **here.describe_answer("score", request, scorer),
    )


@router.post("/v1/rerank", summary="Order documents by likeness to a query", tags=OURS, openapi_extra=_RERANK)
@router.post("/v2/rerank", summary="/v1/rerank, as in Cohere's second version", tags=THEIRS, openapi_extra=_RERANK)
async def rerank(here: Here, request: Request) -> RerankAnswer:
    """The documents from the most to the least alike to the query, in Cohere's and Jina's form.

    With files: `curl -F query=@a.jpg -F documents=@b.jpg -F documents=@c.jpg .../v1/rerank`.
    """
    return await _rank_documents(here, request, await here.read_request(request, RerankRequest, form=True))


@router.post(
    "/rerank",
    summary="/v1/rerank, as in vLLM, infinity and Text Embeddings Inference",
    tags=THEIRS,
    openapi_extra=_RERANK,
)
async def rerank_any(here: Here, request: Request) -> RerankAnswer | list[TextRank]:
    """The answer of `/v1/rerank`; to `texts` in place of `documents` a list, as in Text Embeddings Inference."""
    body = await here.read_request(request, RerankRequest, form=True)
    answer = await _rank_documents(here, request, body)
    if body.key_of("documents") == "texts":
        return [TextRank(index=item.index, score=item.relevance_score, text=item.document) for item in answer.results]
    return answer


async def _rank_documents(here: Context, request: Request, body: RerankRequest) -> RerankAnswer:
    scorer = here.choose_scorer(body)
    documents = list_pictures(body.documents, body.key_of("documents"), here.settings.pictures - 1)
    query = list_pictures(body.query, "query", 1)

    def find_sent(place: int) -> Picture | None:
        sent = documents[place][1]
        return sent if body.return_documents and not isinstance(sent, Upload) else None

    def rank_documents() -> list[RerankItem]:
        (tokens, _), original, contents = here.load_panels([*query, *documents], body.collection)
        logits = here.score_logits(scorer, tokens[:1], tokens[1:])
        found = scorer.rank_pairs(logits, _pair_places(1, len(documents)), original, contents, body.top_n or None)
        items = [RerankItem(index=place, document=find_sent(place), **asdict(judgement)) for place, judgement in found]
        for item in items:
            item.relevance_score = item.raw_score if body.is_raw else item.relevance_score
        return items

    return RerankAnswer(
        results=await here.work.run(rank_documents, request),
        usage=_count_usage(scorer, 1 + len(documents), len(documents)),
        **here.describe_answer("rerank", request, scorer),
    )


@router.post("/v1/explain", summary="Where two pictures match", tags=OURS, openapi_extra=_EXPLAIN)
async def explain(here: Here, request: Request) -> ExplainAnswer:
    """The patches of both pictures that the network relates: the strongest links from patch to patch across the seam.

    Swapping the two pictures swaps the ends of the links and changes nothing else.
    """
    body = await here.read_request(request, ExplainRequest, form=True, pictures=2)
    scorer = here.choose_scorer(body)
    pair = list_pictures(body.images, "images", 2)

    def draw_overlay(found: explanation.Explanation) -> str:
        side, collection = explanation.SIDE, body.collection
        pictures = [here.decode_picture(picture, position, collection, side) for position, picture in pair]
        return "data:image/png;base64," + base64.b64encode(explanation.draw_overlay(found, *pictures)).decode()

    def explain_pair() -> ExplainAnswer:
        (tokens, _), original, contents = here.load_panels(pair, body.collection)
        with here.metrics.time_stage("pair"):
            found = explanation.explain_pair(scorer, *tokens, links=body.links, original=original, contents=contents)
        here.metrics.count_items("pairs", 1)
        return ExplainAnswer(
            **here.describe_answer("explain", request, scorer),
            **asdict(found.answer),
            answers={question: AnswerItem.model_validate(one) for question, one in found.answers.items()},
            grid=found.grid,
            crossing=found.crossing,
            evidence=found.evidence,
            placement=explanation.list_corners(found),
            links=[
                LinkItem(patches=(found.place(link.first), found.place(link.second)), share=link.share)
                for link in found.links
            ],
            attention=found.attention.tolist() if body.matrix else None,
            overlay=draw_overlay(found) if body.overlay else None,
            usage=_count_usage(scorer, 2, 1),
        )

    return await here.work.run(explain_pair, request)


@router.post("/v1/embeddings", summary="Embed pictures", tags=OURS, openapi_extra=_EMBEDDINGS)
async def embeddings(here: Here, request: Request) -> EmbeddingAnswer:
    """The unit vectors that find candidates, in OpenAI's form; their dot product is the cosine of two pictures."""
    body = await here.read_request(request, EmbeddingRequest, form=True)
    scorer = here.scorer_of(body.collection)
    pictures = list_pictures(body.images, body.key_of("images"), here.settings.pictures)

    def encode_vector(vector: np.ndarray) -> list[float] | str:
        if body.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector.astype(float).tolist()

    def embed_pictures() -> list[EmbeddingItem]:
        (_, vectors), *_ = here.load_panels(pictures, body.collection)
        return [EmbeddingItem(index=index, embedding=encode_vector(vector)) for index, vector in enumerate(vectors)]

    data = await here.work.run(embed_pictures, request)
    return EmbeddingAnswer(data=data, model=scorer.runtime.name, usage=_count_usage(scorer, len(pictures), 0))


def _pair_places(queries: int, documents: int) -> np.ndarray:
    """The pairs int64 (P, 2) of places of queries and documents in one list, one query or as many as documents."""
    second = np.arange(queries, queries + documents)
    return np.stack([np.zeros(documents, int) if queries == 1 else np.arange(queries), second], 1)


def _count_usage(scorer: Scorer, images: int, pairs: int) -> Usage:
    rows, columns, _ = scorer.runtime.token_shape
    tokens = images * rows * columns
    return Usage(images=images, pairs=pairs, prompt_tokens=tokens, total_tokens=tokens)
