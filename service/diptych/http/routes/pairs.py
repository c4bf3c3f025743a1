"""Scores, rankings and embeddings of pictures that come with the request."""

from __future__ import annotations

import base64
import time
from dataclasses import asdict

import numpy as np
from fastapi import APIRouter, Request

from diptych.http.context import Context, Here, RequestId
from diptych.http.health import Proven
from diptych.http.middleware.errors import RequestError, documented
from diptych.http.schemas.bodies import body_schema, read_body
from diptych.http.schemas.images import Picture, Upload, check_count, listed
from diptych.http.schemas.requests import (
    EmbeddingForm,
    EmbeddingRequest,
    ExplainForm,
    ExplainRequest,
    RerankForm,
    RerankRequest,
    ScoreForm,
    ScoreRequest,
)
from diptych.http.schemas.responses import (
    AnswerItem,
    EmbeddingAnswer,
    EmbeddingItem,
    ExplainAnswer,
    LinkItem,
    Placement,
    RerankAnswer,
    RerankItem,
    ScoreAnswer,
    ScoreItem,
    Usage,
)
from diptych.scoring import explanation
from diptych.scoring.scorer import Scorer

ERRORS = documented(400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 501, 503, 504)

router = APIRouter(tags=["pictures in the request"], dependencies=[Proven], responses=ERRORS)


@router.post("/v1/score", summary="Score pairs", openapi_extra=body_schema(ScoreRequest, ScoreForm))
async def score(here: Here, request_id: RequestId, request: Request) -> ScoreAnswer:
    """The score of each pair of a query and a document, in vLLM's form: to the `question` that is asked, and in
    `answers` to every question that the model answers.

    One query meets every document; as many queries as documents are paired in order. The order of the two pictures of
    a pair does not change its score. With files: `curl -F queries=@a.jpg -F documents=@b.jpg .../v1/score`.
    """
    limit = here.settings.pictures
    body = await read_body(request, ScoreRequest, ScoreForm, limit, here.parsing)
    await here.open(body.collection)
    here.check(body)
    scorer = here.asking(body.question, body.collection)
    queries = listed(body.queries, body.key_of("queries"), limit)
    documents = listed(body.documents, body.key_of("documents"), limit)
    check_count(len(queries) + len(documents), "queries and documents together", limit)
    if len(queries) not in (1, len(documents)):
        message = (
            f"{len(queries)} queries and {len(documents)} documents make no pairs; "
            "expected 1 and 1, 1 and N, or N and N."
        )
        raise RequestError(422, "pairing_mismatch", message, param="queries")

    def work() -> list[ScoreItem]:
        (tokens, _), original, contents = here.panels_and_originals([*queries, *documents], body.collection)
        logits = here.logits(scorer, tokens[: len(queries)], tokens[len(queries) :])
        judged = scorer.judged(logits, _sides(len(queries), len(documents)), original, contents)
        return [
            ScoreItem(
                index=index,
                score=asked.raw_score if body.raw else asked.relevance_score,
                raw_score=asked.raw_score,
                verdict=asked.verdict,
                closer_look=asked.closer_look,
                answers={question: AnswerItem(**asdict(made[index])) for question, made in judged.items()},
            )
            for index, asked in enumerate(judged[scorer.runtime.question])
        ]

    data = await here.work.run(work, request)
    return ScoreAnswer(
        id=f"score-{request_id}",
        created=int(time.time()),
        model=scorer.runtime.name,
        question=scorer.runtime.question,
        data=data,
        usage=_usage(scorer, len(queries) + len(documents), len(documents)),
    )


@router.post(
    "/v1/rerank",
    summary="Order documents by likeness to a query",
    openapi_extra=body_schema(RerankRequest, RerankForm),
)
async def rerank(here: Here, request_id: RequestId, request: Request) -> RerankAnswer:
    """The documents from the most to the least alike to the query, in Cohere's and Jina's form.

    With files: `curl -F query=@a.jpg -F documents=@b.jpg -F documents=@c.jpg .../v1/rerank`.
    """
    body = await read_body(request, RerankRequest, RerankForm, here.settings.pictures, here.parsing)
    return await ranking(here, request_id, request, body)


async def ranking(here: Context, request_id: str, request: Request, body: RerankRequest | RerankForm) -> RerankAnswer:
    """The answer to a request for a ranking, whose body was read."""
    await here.open(body.collection)
    here.check(body)
    scorer = here.asking(body.question, body.collection)
    back = isinstance(body, RerankRequest) and body.return_documents
    documents = listed(body.documents, body.key_of("documents"), here.settings.pictures - 1)
    query = listed(body.query, "query", 1)

    def returned(place: int) -> Picture | None:
        sent = documents[place][1]
        return sent if back and not isinstance(sent, Upload) else None

    def work() -> list[RerankItem]:
        (tokens, _), original, contents = here.panels_and_originals([*query, *documents], body.collection)
        logits = here.logits(scorer, tokens[:1], tokens[1:])
        found = scorer.ranked(logits, _sides(1, len(documents)), original, contents, body.top_n or None)
        items = [RerankItem(index=place, document=returned(place), **asdict(judgement)) for place, judgement in found]
        for item in items:
            item.relevance_score = item.raw_score if body.raw else item.relevance_score
        return items

    results = await here.work.run(work, request)
    return RerankAnswer(
        id=f"rerank-{request_id}",
        model=scorer.runtime.name,
        question=scorer.runtime.question,
        results=results,
        usage=_usage(scorer, 1 + len(documents), len(documents)),
    )


@router.post(
    "/v1/explain",
    summary="Where two pictures match",
    openapi_extra=body_schema(ExplainRequest, ExplainForm),
)
async def explain(here: Here, request_id: RequestId, request: Request) -> ExplainAnswer:
    """The patches of both pictures that the network relates: the strongest links from patch to patch across the seam.

    Swapping the two pictures swaps the ends of the links and changes nothing else.
    """
    body = await read_body(request, ExplainRequest, ExplainForm, 2, here.parsing)
    await here.open(body.collection)
    here.check(body)
    scorer = here.asking(body.question, body.collection)
    pair = listed(body.images, "images", 2)

    def work() -> ExplainAnswer:
        (tokens, _), original, contents = here.panels_and_originals(pair, body.collection)
        with here.metrics.timed("pair"):
            found = explanation.explain(scorer, *tokens, links=body.links, original=original, contents=contents)
        here.metrics.done("pairs", 1)
        drawn = None
        if body.overlay:
            drawn = explanation.overlay(
                found,
                *(here.picture(picture, position, body.collection, explanation.SIDE) for position, picture in pair),
            )
        return ExplainAnswer(
            id=f"explain-{request_id}",
            model=scorer.runtime.name,
            question=found.question,
            **asdict(found.answer),
            answers={question: AnswerItem(**asdict(one)) for question, one in found.answers.items()},
            grid=found.grid,
            crossing=found.crossing,
            evidence=found.evidence,
            placement=None if (corners := explanation.placed(found)) is None else Placement.model_validate(corners),
            links=[
                LinkItem(patches=(found.place(link.first), found.place(link.second)), share=link.share)
                for link in found.links
            ],
            attention=found.attention.tolist() if body.matrix else None,
            overlay=None if drawn is None else "data:image/png;base64," + base64.b64encode(drawn).decode(),
            usage=_usage(scorer, 2, 1),
        )

    return await here.work.run(work, request)


@router.post("/v1/embeddings", summary="Embed pictures", openapi_extra=body_schema(EmbeddingRequest, EmbeddingForm))
async def embeddings(here: Here, request: Request) -> EmbeddingAnswer:
    """The unit vectors that find candidates, in OpenAI's form; their dot product is the cosine of two pictures."""
    body = await read_body(request, EmbeddingRequest, EmbeddingForm, here.settings.pictures, here.parsing)
    await here.open(body.collection)
    here.check(body)
    scorer = here.scorer_of(body.collection)
    pictures = listed(body.images, body.key_of("images"), here.settings.pictures)

    def work() -> list[EmbeddingItem]:
        vectors = here.panels(pictures, body.collection).embeddings
        return [
            EmbeddingItem(index=index, embedding=_written(vector, body.encoding_format))
            for index, vector in enumerate(vectors)
        ]

    data = await here.work.run(work, request)
    return EmbeddingAnswer(data=data, model=scorer.runtime.name, usage=_usage(scorer, len(pictures), 0))


def _sides(queries: int, documents: int) -> np.ndarray:
    """The pairs int64 (P, 2) of places of queries and documents in one list, one query or as many as documents."""
    second = np.arange(queries, queries + documents)
    return np.stack([np.zeros(documents, int) if queries == 1 else np.arange(queries), second], 1)


def _written(vector: np.ndarray, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.astype(float).tolist()


def _usage(scorer: Scorer, images: int, pairs: int) -> Usage:
    rows, columns, _ = scorer.runtime.token_shape
    tokens = images * rows * columns
    return Usage(images=images, pairs=pairs, prompt_tokens=tokens, total_tokens=tokens)
