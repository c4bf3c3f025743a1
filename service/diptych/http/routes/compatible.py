"""The routes under which other services have a score and a ranking, for clients that were written for these: vLLM, Text
Embeddings Inference, infinity and Cohere.
"""

from __future__ import annotations

from fastapi import APIRouter, Request

from diptych.http.context import Here, RequestId
from diptych.http.health import Proven
from diptych.http.routes import pairs
from diptych.http.schemas.bodies import body_schema, read_body
from diptych.http.schemas.requests import (
    AnyRerankRequest,
    RerankForm,
    RerankRequest,
    ScoreForm,
    ScoreRequest,
    TextsRequest,
)
from diptych.http.schemas.responses import RerankAnswer, ScoreAnswer, TextRank

router = APIRouter(tags=["where other services have it"], dependencies=[Proven], responses=pairs.ERRORS)


@router.post("/score", summary="/v1/score, as in vLLM", openapi_extra=body_schema(ScoreRequest, ScoreForm))
async def score(here: Here, request_id: RequestId, request: Request) -> ScoreAnswer:
    """The answer of `/v1/score`."""
    return await pairs.score(here, request_id, request)


@router.post(
    "/v2/rerank",
    summary="/v1/rerank, as in Cohere's second version",
    openapi_extra=body_schema(RerankRequest, RerankForm),
)
async def rerank_v2(here: Here, request_id: RequestId, request: Request) -> RerankAnswer:
    """The answer of `/v1/rerank`."""
    return await pairs.rerank(here, request_id, request)


@router.post(
    "/rerank",
    summary="/v1/rerank, as in vLLM, infinity and Text Embeddings Inference",
    openapi_extra=body_schema(AnyRerankRequest, RerankForm),
)
async def rerank(here: Here, request_id: RequestId, request: Request) -> RerankAnswer | list[TextRank]:
    """The answer of `/v1/rerank`; to `texts` in place of `documents` a list, as in Text Embeddings Inference."""
    read = await read_body(request, AnyRerankRequest, RerankForm, here.settings.pictures, here.parsing)
    body = read.root if isinstance(read, AnyRerankRequest) else read
    answer = await pairs.ranking(here, request_id, request, body)
    if isinstance(body, TextsRequest):
        return [TextRank(index=item.index, score=item.relevance_score, text=item.document) for item in answer.results]
    return answer
