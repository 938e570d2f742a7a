"""An OpenTelemetry collector on loopback: OTLP over HTTP, protobuf."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Takes spans from ``url`` until it is closed."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers['Content-Length']))
                known = handler.path == '/v1/traces'
                handler.send_response(200 if known else 404)
                handler.send_header('Content-Type', 'application/x-protobuf')
                handler.end_headers()
                if known:
                    self._take(ExportTraceServiceRequest.FromString(body))
                    handler.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(handler, *given: Any) -> None:  # noqa: N805
                """Say nothing."""

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self._server.server_port}'
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.services |= {
                one.value.string_value
                for one in resource.resource.attributes
                if one.key == 'service.name'
            }
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def of_task(self, task_id: str) -> list[Span]:
        """Return the spans of one task so far."""
        return [span for span in tuple(self.spans) if span.trace_id.hex() == task_id]

    def close(self) -> None:
        """Take no more; idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes(span: Span) -> dict[str, Any]:
    """Return the attributes of a span, by name."""
    return {
        one.key: one.value.string_value
        if one.value.HasField('string_value')
        else one.value.int_value
        for one in span.attributes
    }
