"""What a collector of OpenTelemetry gets to see of a service that was started with its address."""

import base64
import json
import signal
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import Request, urlopen

import pytest
from started import until_ready

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def collector():
    """The bodies that were posted to it, by path."""
    got: deque[tuple[str, bytes]] = deque()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def spans(bodies: deque[tuple[str, bytes]]) -> list:
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    found = []
    for path, body in bodies:
        assert path == "/v1/traces"  # neither figures nor logs, which would carry what was sent
        message = trace_service.ExportTraceServiceRequest.FromString(body)
        found += [s for resource in message.resource_spans for scope in resource.scope_spans for s in scope.spans]
    return found


def test_a_collector_gets_each_request_with_its_stages_under_the_trace_its_caller_began(
    artifact, port, spawn, environment, collector, photo_bytes
):
    endpoint, got = collector
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": "pictures", "DIPTYCH_LOG": "json"}
    address = f"http://127.0.0.1:{port}"
    process = spawn("serve", "--port", port, "--model", artifact, "--threads", 1)
    until_ready(address, process)
    picture = "data:image/jpeg;base64," + base64.b64encode(photo_bytes(0, (96, 64), "JPEG")).decode()
    body = json.dumps({"query": picture, "documents": [picture]}).encode()
    headers = {"Content-Type": "application/json", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    with urlopen(Request(f"{address}/v1/rerank", body, headers)) as answer:
        request_id = answer.headers["X-Request-ID"]
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    found = {span.name: span for span in spans(got)}
    request = found["POST /v1/rerank"]
    assert request.trace_id.hex() == TRACE
    attributes = {one.key: one.value.string_value for one in request.attributes}
    assert attributes["diptych.request_id"] == request_id
    stages = {name for name, one in found.items() if one.parent_span_id == request.span_id}
    assert stages == {"diptych.decode", "diptych.panel", "diptych.pair"}
    assert not [name for name in found if "readyz" in name]
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert [line["trace_id"] for line in lines if line.get("request_id") == request_id] == [TRACE]
