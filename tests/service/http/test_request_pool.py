"""Clients that do not wait for their answer."""

import logging
import time

import httpx
import pytest

from diptych.scoring.deadline import current_deadline


def test_a_client_that_hangs_up_is_no_timeout_of_the_service(serve, scorer, photo_bytes, data_uri, monkeypatch, caplog):
    def until_nobody_waits(*_: object, **__: object) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            current_deadline().check("these pairs")
            time.sleep(0.01)

    asked = {"queries": data_uri(photo_bytes(1)), "documents": data_uri(photo_bytes(2))}
    with serve() as client, caplog.at_level(logging.INFO, "diptych.access"):
        monkeypatch.setattr(scorer.scheduler, "logits", until_nobody_waits)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/score", json=asked, timeout=0.2)
        end, metrics = time.monotonic() + 10, ""
        while 'reason="client_left"' not in metrics and time.monotonic() < end:
            time.sleep(0.01)
            metrics = client.get("/metrics").text
    assert 'diptych_rejections_total{reason="client_left"} 1.0' in metrics
    assert 'route="/v1/score",status="499"' in metrics
    assert 'reason="deadline"' not in metrics
    assert 'status="504"' not in metrics
    (line,) = [record for record in caplog.records if getattr(record, "path", "") == "/v1/score"]
    assert (line.levelno, line.status, line.error) == (logging.INFO, 499, "client_left")  # pyright: ignore[reportAttributeAccessIssue]
