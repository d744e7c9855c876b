"""The HTTP side of the drill's engine: completions as OpenAI's and vLLM's servers give them, metrics and health.

A stream's head is sent before its first token, as vLLM does: what breaks off after it cannot become a status any more.
`system_fingerprint` names the incarnation; every token is " yes" where the sum over all ranks was right, else " no".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from rankmuster.drill.engine_record import Record, What
from rankmuster.drill.engine_requests import Requests, Token, Turned
from rankmuster.drill.page import MODEL

GOOD, BAD = " yes", " no"
FINGERPRINT = "incarnation-"
"""Before its number, in `system_fingerprint`."""
NAME_HEADER = "X-Request-Id"
"""In which a client names its request, for the record."""
MOST_BODY = 1 << 20
MOST_TOKENS = 4096
USUAL_TOKENS = 16  # OpenAI's


class BadRequest(ValueError):
    """What was asked for cannot be given; says why."""


def asked_of(body: bytes) -> tuple[int, int, bool]:
    """(prompt tokens, tokens to make, stream or not). Raises BadRequest."""
    try:
        plain = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(plain, dict):
        raise BadRequest("the body is no object")
    prompt, tokens = plain.get("prompt", ""), plain.get("max_tokens", USUAL_TOKENS)
    if not isinstance(prompt, str):
        raise BadRequest("prompt is no text")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= MOST_TOKENS:
        raise BadRequest(f"max_tokens is no number from 1 to {MOST_TOKENS}")
    return max(len(prompt.split()), 1), tokens, plain.get("stream") is True


def handler(
    requests: Requests, record: Record, page: Callable[[], str], incarnation: int
) -> Callable[..., BaseHTTPRequestHandler]:
    """Of one incarnation. `page`: what /metrics shows."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            path = self.path.split("?")[0].rstrip("/")
            if path == "/health":  # vLLM's answers 200 while its collectives hang, too
                self._whole(200, b"", "text/plain")
            elif path == "/metrics":
                self._whole(200, page().encode(), "text/plain; version=0.0.4; charset=utf-8")
            else:
                self._whole(404, b"", "text/plain")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > MOST_BODY:
                self.close_connection = True
                self._error(411, "a body of known length, of at most a mebibyte, is wanted")
                return
            body = self.rfile.read(int(length))
            if self.path.split("?")[0].rstrip("/") != "/v1/completions":
                self._error(404, "there is /v1/completions alone")
                return
            try:
                prompt, tokens, stream = asked_of(body)
                number, coming = requests.ask(prompt, tokens, self.headers.get(NAME_HEADER, ""))
            except BadRequest as error:
                self._error(400, str(error))
                return
            except Turned as error:
                self._error(503, str(error))
                return
            try:
                if stream:
                    self._stream(number, coming)
                else:
                    self._at_once(number, prompt, coming)
            except Turned as error:
                record.write(What.REFUSED, number=number)
                if stream:
                    self.close_connection = True  # without the last chunk: the client sees that it broke off
                else:
                    self._error(503, str(error))
            except OSError:
                self.close_connection = True
                record.write(What.LEFT, number=number)
                requests.leave(number)

        def _at_once(self, number: int, prompt: int, coming: Iterator[Token]) -> None:
            made = [GOOD if token.good else BAD for token in coming]
            usage = {"prompt_tokens": prompt, "completion_tokens": len(made), "total_tokens": prompt + len(made)}
            answer = {**_answer(number, "".join(made), last=True), "usage": usage}
            self._whole(200, json.dumps(answer).encode(), "application/json")
            record.write(What.ANSWERED, number=number)

        def _stream(self, number: int, coming: Iterator[Token]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for token in coming:
                answer = _answer(number, GOOD if token.good else BAD, last=token.last)
                self._chunk(f"data: {json.dumps(answer)}\n\n".encode())
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
            record.write(What.ANSWERED, number=number)

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

        def _error(self, status: int, why: str) -> None:
            body = json.dumps({"error": {"message": why, "code": status}}).encode()
            self._whole(status, body, "application/json")

        def _whole(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            """Nothing: the record has it."""

    def _answer(number: int, text: str, *, last: bool) -> dict[str, Any]:
        return {
            "id": f"cmpl-{incarnation}-{number}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": MODEL,
            "system_fingerprint": f"{FINGERPRINT}{incarnation}",
            "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length" if last else None}],
        }

    return Answers
