"""LLM routers that behave as the real ones (sglang-router 0.3.2, vllm-router 0.1.17), and as on a bad day."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Bad = Callable[["_Handler"], bool]
"""Whether it has answered a request in its own way."""


class LlmRouter:
    """`api`: `id`, `url` or `add_remove`. `late`: lists that are given before a queued change shows; None: for ever.

    `bad`: given each request before anything else. `seen`: method, path, headers of all.
    """

    def __init__(self, api: str, *workers: str, late: int | None = 0, key: str | None = None) -> None:
        self.api, self.key = api, key
        self.entries: list[dict[str, Any]] = []
        self.late, self.lists, self.due = late, 0, list[Callable[[], None]]()
        self.bad: Bad = lambda _: False
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        for one in workers:
            self.put(one)
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.router = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def put(self, url: str, **more: Any) -> None:
        entry = {"id": str(uuid.uuid4()), "url": url, "worker_type": "regular", "priority": 50, "cost": 1.0}
        self.entries.append(entry | {"is_healthy": True, "load": 0} | more)

    @property
    def urls(self) -> list[str]:
        return [one["url"] for one in self.entries]

    @property
    def asked(self) -> list[str]:
        """What was asked besides lists."""
        return [f"{method} {path}" for method, path, _ in self.seen if method != "GET"]

    def drop(self, url: str) -> None:
        self.entries = [one for one in self.entries if one["url"] != url]

    def queue(self, change: Callable[[], None]) -> None:
        if self.late == 0:
            change()
        else:
            self.lists = 0
            self.due.append(change)

    def listing(self) -> None:
        self.lists += 1
        if self.late is not None and self.lists > self.late:
            for change in self.due:
                change()
            self.due = []

    def __enter__(self) -> LlmRouter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def router(self) -> LlmRouter:
        found: LlmRouter = self.server.router  # type: ignore[attr-defined]
        return found

    def say(self, status: int, value: Any) -> None:
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self) -> None:
        router = self.router
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        router.seen.append((self.command, self.path, dict(self.headers)))
        if router.bad(self):
            return None
        if router.key is not None and self.headers.get("Authorization") != f"Bearer {router.key}":
            return self.say(401, {"error": "Unauthorized"})
        parts = urlsplit(self.path)
        query = parse_qs(parts.query).get("url", [""])[0]
        if router.api == "add_remove":
            return self._old(parts.path, query)
        if parts.path == "/workers" and self.command == "GET":
            router.listing()
            return self.say(200, {"workers": router.entries, "total": len(router.entries), "stats": {}})
        if parts.path == "/workers" and self.command == "POST":
            return self._add(body)
        if parts.path.startswith("/workers/") and self.command == "DELETE":
            return self._delete(unquote(parts.path.removeprefix("/workers/")))
        return self.say(404, "")

    def _add(self, body: dict[str, Any]) -> None:
        router, url = self.router, body["url"]
        if router.api == "url" and url in router.urls:
            return self.say(400, {"error": f"Worker {url} already exists", "code": "ADD_WORKER_FAILED"})
        more = {key: value for key, value in body.items() if key != "url"}
        router.queue(lambda: router.put(url, **more))
        if router.api == "url":
            return self.say(200, {"success": True, "message": f"Successfully added worker: {url}"})
        return self.say(202, {"status": "accepted", "url": url, "message": "Worker addition queued"})

    def _delete(self, known: str) -> None:
        router = self.router
        if router.api == "url":
            router.queue(lambda: router.drop(known))
            return self.say(200, {"success": True, "message": f"Worker {known} removed successfully"})
        found = [one["url"] for one in router.entries if one["id"] == known]
        if not found:
            return self.say(404, {"error": f"Worker {known} not found", "code": "WORKER_NOT_FOUND"})
        router.queue(lambda: router.drop(found[0]))
        return self.say(202, {"status": "accepted", "worker_id": known, "message": "Worker removal queued"})

    def _old(self, path: str, url: str) -> None:
        router = self.router
        if path == "/list_workers":
            router.listing()
            return self.say(200, {"urls": router.urls})
        if path == "/remove_worker":
            router.queue(lambda: router.drop(url))
            return self.say(200, f"Successfully removed worker: {url}")
        if path == "/add_worker":
            if url in router.urls:
                return self.say(400, f"Worker {url} already exists")
            router.queue(lambda: router.put(url))
            return self.say(200, f"Successfully added worker: {url}")
        return self.say(404, "")

    do_GET = do_POST = do_DELETE = handle_any  # noqa: N815  # names that http.server wants

    def log_message(self, *_: object) -> None:
        pass
