"""Spans for OpenTelemetry; they cost a microsecond each until a provider is set up."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.metadata import version

from opentelemetry import trace

_tracer = trace.get_tracer("diptych", version("diptych"))


def span(stage: str) -> AbstractContextManager[trace.Span]:
    """A span `diptych.<stage>` around the enclosed block, below the request's own."""
    return _tracer.start_as_current_span(f"diptych.{stage}")


def note_request(id: str) -> None:
    """Let the request's span carry the id that its caller and the log know."""
    trace.get_current_span().set_attribute("diptych.request_id", id)


def trace_id() -> str | None:
    """The present trace as 32 hexadecimal digits; None if there is none."""
    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None
