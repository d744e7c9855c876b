"""The registries of LLM routers: which workers a router knows, and how one is taken out and put in again.

Three APIs, read from the routers' own sources and tried against their released programs (sglang-router 0.3.2,
vllm-router 0.1.17). All of them only queue, or wait for the worker: what a router answers is no proof, its list is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from rankmuster.adapters.header_file import BadHeaders, read_headers
from rankmuster.adapters.http_call import NotCalled, Reply, call, server_of
from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain

SHOWN = 200
"""Characters of an answer that are quoted."""

SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)
"""Names of values that are not shown: sgl-model-gateway takes a worker's `api_key`."""


class Refused(Exception):
    """The router did not do it, or could not be understood; the message says what came back. `late`: no time was left.
    `perhaps`: it may have been done all the same."""

    def __init__(self, message: str, *, late: bool = False, perhaps: bool = False) -> None:
        super().__init__(message)
        self.late = late
        self.perhaps = perhaps


@dataclass(frozen=True, slots=True)
class Worker:
    """One entry of the list that is of our worker. `load`: requests that the router counts; None where it says none.

    `traits`: what an entry is made of besides its URL, as far as it differs from what a router gives a new one.
    """

    id: str
    healthy: bool = True
    load: int | None = None
    traits: Mapping[str, Any] = field(default_factory=dict)


class Registry(Protocol):
    """All raise Refused."""

    def find(self, deadline: Deadline) -> tuple[Worker, ...]:
        """Our worker's entries: several where the router counts data parallel ranks; none where it does not know it."""
        ...

    def remove(self, worker: Worker, deadline: Deadline) -> None: ...

    def add(self, deadline: Deadline) -> None: ...

    def lines(self, verb: str) -> tuple[str, ...]:
        """What `remove` or `add` send, for people."""
        ...


class Router:
    """One router's HTTP. `url`: without a path. `headers`: a file of them, read anew for each call."""

    def __init__(self, url: str, worker: str, header_file: Path | None) -> None:
        self.url, self.worker = url.rstrip("/"), worker.rstrip("/")
        self._header_file = header_file

    @property
    def shown(self) -> str:
        """Its address without what may be secret in it."""
        return server_of(self.url)

    def call(self, method: str, path: str, deadline: Deadline, body: Mapping[str, Any] | None = None) -> Reply:
        """Raises Refused where no answer came."""
        data = json.dumps(body).encode() if body is not None else None
        try:
            headers = read_headers(self._header_file)
            return call(method, self.url + path, deadline, headers=headers, body=data)
        except BadHeaders as error:
            raise Refused(str(error)) from error
        except NotCalled as error:
            what = f"{method} {path.partition('?')[0]}: {error}"
            raise Refused(what, late=deadline.passed, perhaps=not error.again) from error

    def listed(self, path: str, key: str, deadline: Deadline) -> list[Any]:
        """The list under `key` of what GET `path` answers. Raises Refused, and NoSuchRoute where there is none."""
        reply = self.call("GET", path, deadline)
        if reply.status in (404, 405):
            raise NoSuchRoute(f"GET {path}: {said(reply)}")
        if not reply.good:
            raise Refused(f"GET {path}: {said(reply)}")
        try:
            found = reply.json()[key]
            if not isinstance(found, list):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"GET {path}: it answered something else than a list of workers ({said(reply)})") from error
        return found

    def same(self, url: object) -> bool:
        """Whether an entry's URL is our worker's: `@N` behind it is a data parallel rank of it."""
        return isinstance(url, str) and _normal(url.partition("@")[0]) == _normal(self.worker)


class NoSuchRoute(Refused):
    """The router has another API."""


class WorkersById:
    """sgl-model-gateway: `/workers`, entries with ids. DELETE and POST are queued (202)."""

    def __init__(self, router: Router, add: Mapping[str, Any]) -> None:
        self._router, self._add = router, dict(add)

    def find(self, deadline: Deadline) -> tuple[Worker, ...]:
        found = self._router.listed("/workers", "workers", deadline)
        return tuple(_worker(one, "id") for one in found if isinstance(one, dict) and self._router.same(one.get("url")))

    def remove(self, worker: Worker, deadline: Deadline) -> None:
        reply = self._router.call("DELETE", f"/workers/{quote(worker.id, safe='')}", deadline)
        if not reply.good and reply.status != 404:  # 404: somebody else was faster
            raise Refused(f"DELETE /workers/{plain(worker.id, 60)}: {said(reply)}")

    def add(self, deadline: Deadline) -> None:
        reply = self._router.call("POST", "/workers", deadline, {"url": self._router.worker, **self._add})
        if not reply.good:
            raise Refused(f"POST /workers: {said(reply)}")

    def lines(self, verb: str) -> tuple[str, ...]:
        url = self._router.shown
        if verb == "remove":
            return (f"DELETE {url}/workers/ID, ID being that of {self._router.worker} in GET {url}/workers",)
        hidden = {key: "***" if SECRET.search(key) else value for key, value in self._add.items()}
        return (f"POST {url}/workers {json.dumps({'url': self._router.worker, **hidden})}",)


class WorkersByUrl:
    """vllm-project/router: `/workers`, entries known by their URL. POST waits until the worker is healthy."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def find(self, deadline: Deadline) -> tuple[Worker, ...]:
        found = self._router.listed("/workers", "workers", deadline)
        return tuple(
            _worker(one, "url") for one in found if isinstance(one, dict) and self._router.same(one.get("url"))
        )

    def remove(self, worker: Worker, deadline: Deadline) -> None:
        reply = self._router.call("DELETE", f"/workers/{quote(worker.id, safe='')}", deadline)
        if not reply.good and reply.status != 404:
            raise Refused(f"DELETE /workers/URL: {said(reply)}")

    def add(self, deadline: Deadline) -> None:
        _added("POST /workers", self._router.call("POST", "/workers", deadline, {"url": self._router.worker}))

    def lines(self, verb: str) -> tuple[str, ...]:
        url, worker = self._router.shown, self._router.worker
        if verb == "remove":
            return (f"DELETE {url}/workers/{quote(worker, safe='')}",)
        return (f"POST {url}/workers {json.dumps({'url': worker})}",)


class AddRemove:
    """Older routers: `/add_worker`, `/remove_worker`, `/list_workers`. No load, no health."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def find(self, deadline: Deadline) -> tuple[Worker, ...]:
        found = self._router.listed("/list_workers", "urls", deadline)
        return tuple(Worker(one) for one in found if self._router.same(one))

    def remove(self, worker: Worker, deadline: Deadline) -> None:
        reply = self._router.call("POST", f"/remove_worker?url={quote(worker.id, safe='')}", deadline)
        if not reply.good:
            raise Refused(f"POST /remove_worker: {said(reply)}")

    def add(self, deadline: Deadline) -> None:
        path = f"/add_worker?url={quote(self._router.worker, safe='')}"
        _added("POST /add_worker", self._router.call("POST", path, deadline))

    def lines(self, verb: str) -> tuple[str, ...]:
        return (f"POST {self._router.shown}/{verb}_worker?url={quote(self._router.worker, safe='')}",)


class EitherOf:
    """The first of two APIs that the router has."""

    def __init__(self, first: Registry, second: Registry) -> None:
        self._now, self._other = first, second

    def find(self, deadline: Deadline) -> tuple[Worker, ...]:
        try:
            return self._now.find(deadline)
        except NoSuchRoute as error:
            try:
                found = self._other.find(deadline)
            except NoSuchRoute as other:
                raise Refused(f"{error}; {other}") from other
        self._now, self._other = self._other, self._now
        return found

    def remove(self, worker: Worker, deadline: Deadline) -> None:
        self._now.remove(worker, deadline)

    def add(self, deadline: Deadline) -> None:
        self._now.add(deadline)

    def lines(self, verb: str) -> tuple[str, ...]:
        return self._now.lines(verb)


def said(reply: Reply) -> str:
    """An answer in words."""
    text = plain(reply.text(), SHOWN)
    return f"status {reply.status}" + (f", {text}" if text else "")


def _added(what: str, reply: Reply) -> None:
    if not reply.good and not (reply.status == 400 and "already exists" in reply.text()):
        raise Refused(f"{what}: {said(reply)}")


NEW: Mapping[str, Any] = {"worker_type": "regular", "priority": 50, "cost": 1.0}
"""What sgl-model-gateway gives an entry that says nothing else."""


def _worker(entry: Mapping[str, Any], key: str) -> Worker:
    load = entry.get("load")
    traits = {name: entry[name] for name, new in NEW.items() if name in entry and entry[name] != new}
    return Worker(
        str(entry.get(key, "")),
        entry.get("is_healthy") is not False,
        load if isinstance(load, int) and not isinstance(load, bool) and load >= 0 else None,
        traits,
    )


def _normal(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return parts.netloc.lower(), parts.path.rstrip("/")
    except ValueError:
        return url, ""
