from diptych.http.schemas.images import Content
from diptych.http.schemas.responses import RerankItem, TextRank


def test_a_field_that_was_not_asked_for_is_missing_and_an_answer_of_none_is_null():
    item = RerankItem(index=1, relevance_score=0.5, raw_score=0.0, verdict="unsure")
    assert item.model_dump()["closer_look"] is None
    assert "document" not in item.model_dump()
    assert "text" not in TextRank(index=0, score=0.5).model_dump()


def test_a_document_comes_back_as_it_was_sent_without_what_it_left_out():
    sent = {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    item = RerankItem(index=1, relevance_score=0.5, raw_score=0.0, verdict="unsure", document=Content(**sent))
    assert item.model_dump()["document"] == sent
