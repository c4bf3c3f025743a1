from diptych.http.schemas.responses import RerankItem, TextRank

JUDGED = {"index": 1, "relevance_score": 0.5, "raw_score": 0.0, "verdict": "unsure"}


def test_a_field_that_was_not_asked_for_is_missing_and_an_answer_of_none_is_null():
    shown = RerankItem.model_validate(JUDGED).model_dump()
    assert shown["closer_look"] is None
    assert "document" not in shown
    assert "text" not in TextRank.model_validate({"index": 0, "score": 0.5}).model_dump()


def test_a_document_comes_back_as_it_was_sent_without_what_it_left_out():
    sent = {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    assert RerankItem.model_validate({**JUDGED, "document": sent}).model_dump()["document"] == sent


def test_the_document_of_the_interface_still_names_the_fields_on_request():
    described = RerankItem.model_json_schema(mode="serialization")
    assert {"document", "closer_look"} <= described["properties"].keys()
    assert "document" not in described["required"]
