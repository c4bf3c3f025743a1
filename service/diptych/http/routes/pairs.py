"""Scores, rankings and embeddings of pictures that come with the request."""

from __future__ import annotations

import base64
import time
from dataclasses import asdict
from enum import Enum

import numpy as np
from fastapi import APIRouter, Request

from diptych.http.bodies import describe_body
from diptych.http.context import Context, Here, Proven, RequestId
from diptych.http.middleware.errors import BODY_ERRORS, RequestError
from diptych.http.schemas.pictures import Picture, Upload, check_count, list_pictures
from diptych.http.schemas.requests import (
    AnyRerankRequest,
    EmbeddingRequest,
    ExplainRequest,
    RerankRequest,
    ScoreRequest,
    TextsRequest,
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
    TextRank,
    Usage,
)
from diptych.scoring import explanation
from diptych.scoring.scorer import Scorer

OURS: list[str | Enum] = ["pictures in the request"]
THEIRS: list[str | Enum] = ["where other services have it"]
_RERANK = describe_body(RerankRequest, RerankRequest)

router = APIRouter(dependencies=[Proven], responses=BODY_ERRORS)


@router.post("/v1/score", summary="Score pairs", tags=OURS, openapi_extra=describe_body(ScoreRequest, ScoreRequest))
@router.post(
    "/score", summary="/v1/score, as in vLLM", tags=THEIRS, openapi_extra=describe_body(ScoreRequest, ScoreRequest)
)
async def score(here: Here, request_id: RequestId, request: Request) -> ScoreAnswer:
    """The score of each pair of a query and a document, in vLLM's form: to the `question` that is asked, and in
    `answers` to every question that the model answers.

    One query meets every document; as many queries as documents are paired in order. The order of the two pictures of
    a pair does not change its score. With files: `curl -F queries=@a.jpg -F documents=@b.jpg .../v1/score`.
    """
    limit = here.settings.pictures
    body = await here.read_request(request, ScoreRequest, form=ScoreRequest)
    scorer = here.choose_scorer(body)
    queries = list_pictures(body.queries, body.key_of("queries"), limit)
    documents = list_pictures(body.documents, body.key_of("documents"), limit)
    check_count(len(queries) + len(documents), "queries and documents together", limit)
    if len(queries) not in (1, len(documents)):
        message = (
            f"{len(queries)} queries and {len(documents)} documents make no pairs; "
            "expected 1 and 1, 1 and N, or N and N."
        )
        raise RequestError(422, "pairing_mismatch", message, param="queries")

    def score_pairs() -> list[ScoreItem]:
        (tokens, _), original, contents = here.load_panels([*queries, *documents], body.collection)
        logits = here.score_logits(scorer, tokens[: len(queries)], tokens[len(queries) :])
        judged = scorer.judged(logits, _pair_places(len(queries), len(documents)), original, contents)
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

    data = await here.work.run(score_pairs, request)
    return ScoreAnswer(
        id=f"score-{request_id}",
        created=int(time.time()),
        model=scorer.runtime.name,
        question=scorer.runtime.question,
        data=data,
        usage=_count_usage(scorer, len(queries) + len(documents), len(documents)),
    )


@router.post("/v1/rerank", summary="Order documents by likeness to a query", tags=OURS, openapi_extra=_RERANK)
@router.post(
    "/v2/rerank",
    name="rerank_v2",
    summary="/v1/rerank, as in Cohere's second version",
    tags=THEIRS,
    openapi_extra=_RERANK,
)
async def rerank(here: Here, request_id: RequestId, request: Request) -> RerankAnswer:
    """The documents from the most to the least alike to the query, in Cohere's and Jina's form.

    With files: `curl -F query=@a.jpg -F documents=@b.jpg -F documents=@c.jpg .../v1/rerank`.
    """
    return await _rank_documents(
        here, request_id, request, await here.read_request(request, RerankRequest, form=RerankRequest)
    )


@router.post(
    "/rerank",
    name="rerank",
    summary="/v1/rerank, as in vLLM, infinity and Text Embeddings Inference",
    tags=THEIRS,
    openapi_extra=describe_body(AnyRerankRequest, RerankRequest),
)
async def rerank_any(here: Here, request_id: RequestId, request: Request) -> RerankAnswer | list[TextRank]:
    """The answer of `/v1/rerank`; to `texts` in place of `documents` a list, as in Text Embeddings Inference."""
    body = await here.read_request(request, AnyRerankRequest, form=RerankRequest)
    answer = await _rank_documents(here, request_id, request, body)
    if isinstance(body, TextsRequest):
        return [TextRank(index=item.index, score=item.relevance_score, text=item.document) for item in answer.results]
    return answer


async def _rank_documents(here: Context, request_id: str, request: Request, body: RerankRequest) -> RerankAnswer:
    scorer = here.choose_scorer(body)
    documents = list_pictures(body.documents, body.key_of("documents"), here.settings.pictures - 1)
    query = list_pictures(body.query, "query", 1)

    def find_sent(place: int) -> Picture | None:
        sent = documents[place][1]
        return sent if body.return_documents and not isinstance(sent, Upload) else None

    def rank_documents() -> list[RerankItem]:
        (tokens, _), original, contents = here.load_panels([*query, *documents], body.collection)
        logits = here.score_logits(scorer, tokens[:1], tokens[1:])
        found = scorer.ranked(logits, _pair_places(1, len(documents)), original, contents, body.top_n or None)
        items = [RerankItem(index=place, document=find_sent(place), **asdict(judgement)) for place, judgement in found]
        for item in items:
            item.relevance_score = item.raw_score if body.is_raw else item.relevance_score
        return items

    results = await here.work.run(rank_documents, request)
    return RerankAnswer(
        id=f"rerank-{request_id}",
        model=scorer.runtime.name,
        question=scorer.runtime.question,
        results=results,
        usage=_count_usage(scorer, 1 + len(documents), len(documents)),
    )


@router.post(
    "/v1/explain",
    summary="Where two pictures match",
    tags=OURS,
    openapi_extra=describe_body(ExplainRequest, ExplainRequest),
)
async def explain(here: Here, request_id: RequestId, request: Request) -> ExplainAnswer:
    """The patches of both pictures that the network relates: the strongest links from patch to patch across the seam.

    Swapping the two pictures swaps the ends of the links and changes nothing else.
    """
    body = await here.read_request(request, ExplainRequest, form=ExplainRequest, pictures=2)
    scorer = here.choose_scorer(body)
    pair = list_pictures(body.images, "images", 2)

    def explain_pair() -> ExplainAnswer:
        (tokens, _), original, contents = here.load_panels(pair, body.collection)
        with here.metrics.time_stage("pair"):
            found = explanation.explain(scorer, *tokens, links=body.links, original=original, contents=contents)
        here.metrics.count_items("pairs", 1)
        drawn = None
        if body.overlay:
            drawn = explanation.overlay(
                found,
                *(
                    here.decode_picture(picture, position, body.collection, explanation.SIDE)
                    for position, picture in pair
                ),
            )
        return ExplainAnswer(
            id=f"explain-{request_id}",
            model=scorer.runtime.name,
            question=found.question,
            **asdict(found.answer),
            answers={question: AnswerItem.model_validate(one) for question, one in found.answers.items()},
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
            usage=_count_usage(scorer, 2, 1),
        )

    return await here.work.run(explain_pair, request)


@router.post(
    "/v1/embeddings",
    summary="Embed pictures",
    tags=OURS,
    openapi_extra=describe_body(EmbeddingRequest, EmbeddingRequest),
)
async def embeddings(here: Here, request: Request) -> EmbeddingAnswer:
    """The unit vectors that find candidates, in OpenAI's form; their dot product is the cosine of two pictures."""
    body = await here.read_request(request, EmbeddingRequest, form=EmbeddingRequest)
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
