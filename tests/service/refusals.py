"""The one form of every refusal."""

from __future__ import annotations

import httpx


def check_refusal(
    answer: httpx.Response, status: int, code: str, param: str | None = None, said: str = ""
) -> dict[str, str]:
    """Check that an answer is this refusal, in the envelope; returns its error."""
    assert answer.status_code == status, answer.text[:500]
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code", "param", "request_id"}
    assert (error["code"], error["param"]) == (code, param), answer.text[:500]
    assert error["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["x-error-code"] == code
    assert "Traceback" not in answer.text
    assert said in error["message"]
    return error
