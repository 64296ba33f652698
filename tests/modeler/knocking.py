"""Owns Modeler's requests as they were recorded from its client: every header in its place, bodies byte for byte.

Never uses an HTTP library to send, because one would mend what a real client sends. Called by the tests of the door.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

AGENT = "camunda8-sdk-nodejs/8.8.11"
BOUNDARY = "--------------------------dcd62c79ac8e7da14ae6a44a"
TENANT = "<default>"


class Answer(NamedTuple):
    status: int
    reason: str
    kind: str  # content type
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Modeler:
    """A Camunda Modeler whose connection has the authentication `None`, unless credentials are given."""

    def __init__(self, url: str, authorization: str = "") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = (parts.hostname, parts.port)
        self._authorization = authorization

    # --- what its buttons and panels do -------------------------------------------------------------------------

    def topology(self) -> Answer:
        """What its connection check asks every five seconds."""
        return self._send("GET", "/v2/topology", "application/json", None)

    def deploy(self, *files: tuple[str, bytes], tenant: str = TENANT) -> Answer:
        parts = [
            f"--{BOUNDARY}\r\n"
            f'Content-Disposition: form-data; name="resources"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n".encode()
            + content
            + b"\r\n"
            for name, content in files
        ]
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="tenantId"\r\n\r\n'
        parts.append(f"{head}{tenant}\r\n--{BOUNDARY}--\r\n".encode())
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return self._send("POST", "/v2/deployments", kind, b"".join(parts), accept="application/json")

    def start(self, process_id: str, variables: dict[str, Any]) -> Answer:
        return self.post(
            "/v2/process-instances", {"variables": variables, "processDefinitionId": process_id, "tenantId": TENANT}
        )

    def post(self, path: str, document: Any) -> Answer:
        body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return self._send("POST", path, "application/json", body)

    def get(self, path: str) -> Answer:
        return self._send("GET", path, "application/json", None)

    # --- the wire -----------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, kind: str, body: bytes | None, accept: str = "*/*") -> Answer:
        host, port = self._address
        length = "" if body is None else f"content-length: {len(body)}\r\n"
        head = (
            f"{method} {path} HTTP/1.1\r\n"
            f"user-agent: {AGENT}\r\n"
            f"content-type: {kind}\r\n"
            f"authorization: {self._authorization}\r\n"
            f"accept: {accept}\r\n"
            f"{length}"
            "accept-encoding: gzip, deflate, br\r\n"
            f"Host: {host}:{port}\r\n"
            "Connection: keep-alive\r\n\r\n"
        )
        with socket.create_connection(self._address, timeout=60) as connection:
            connection.sendall(head.encode() + (body or b""))
            response = http.client.HTTPResponse(connection, method=method)
            response.begin()
            return Answer(response.status, response.reason, response.getheader("content-type", ""), response.read())
