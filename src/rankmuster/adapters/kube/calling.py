"""One call of an API server: attempts within its deadline, each told of, and the error that is left in the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from rankmuster import __version__
from rankmuster.adapters.kube.answers import error_of, wait_of
from rankmuster.adapters.kube.api import Invalid, Kind, KubeError
from rankmuster.adapters.kube.connecting import Credentials
from rankmuster.adapters.kube.retrying import Pace
from rankmuster.adapters.kube.wire import Lost, Raw, Wire
from rankmuster.collect.deadline import Deadline

Told = Callable[[str, str, str, str, "int | None"], None]
"""Called after every attempt: verb (as in roles), group, resource, subresource, and the status, None without one."""

Read = TypeVar("Read")
"""What a caller makes of an answer."""

USER_AGENT = f"rankmuster/{__version__}"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")


class Caller:
    """Thread-safe."""

    def __init__(self, credentials: Credentials, told: Told | None, pace: Pace) -> None:
        self.credentials = credentials
        self.wire = Wire(credentials)
        self._told = told
        self._pace = pace

    def call(
        self,
        read: Callable[[Raw], Read],
        method: str,
        verb: str,
        kind: Kind,
        namespace: str | None,
        name: str | None,
        deadline: Deadline,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = "application/json",
        subresource: str | None = None,
        again: bool = False,
        most: int | None = None,
        tail: bool = False,
    ) -> Read:
        """A good answer, read by `read` (ValueError where it cannot be). `again`: it may be repeated where it is not
        known whether it was done."""
        asked = self.words(verb, kind, namespace, name, subresource)
        path = checked(kind, namespace, name, subresource, asked, named=verb not in ("list", "create"))
        if query:
            path += "?" + urlencode(query)
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        most = self._pace.most_bytes if most is None else most
        seconds = self._pace.list_seconds if verb == "list" or tail else self._pace.attempt_seconds
        changes = method != "GET"
        renewed = False
        attempt = 0
        while True:
            attempt += 1
            wanted: float | None = None
            generation = self.credentials.generation
            headers = self._headers(content if data is not None else None, deadline, asked)
            status: int | None = None
            try:
                raw = self.wire.exchange(method, path, headers, data, deadline.within(seconds), most=most, tail=tail)
                status = raw.status
                if 200 <= status < 300:
                    return read(raw)
                trouble = error_of(raw, asked, maybe=changes and status >= 500)
                wanted = wait_of(raw, self._pace.wall()) if status in (429, 503) else None
                if status == 401 and not renewed and self.credentials.again(generation, deadline):
                    renewed = True
                    continue
                if not (status == 429 or (status >= 500 and again)):
                    raise trouble
            except Lost as lost:
                trouble = KubeError(f"{asked}: {lost}", late=lost.late, maybe=changes and lost.sent)
                if lost.sent and not again:
                    raise trouble from lost
            except ValueError as error:
                trouble = KubeError(f"{asked}: its answer cannot be read: {error}", status=status, maybe=changes)
                if not again:
                    raise trouble from error
            finally:
                self.tell(verb, kind, subresource or "", status)
            if not self._pace.pause(attempt, wanted, deadline):
                late = trouble.late or attempt < self._pace.most  # there was no time for another one
                tries = f" (attempt {attempt}, the last one)" if attempt > 1 else ""
                raise type(trouble)(
                    f"{trouble}{tries}", status=trouble.status, reason=trouble.reason, late=late, maybe=trouble.maybe
                )

    def _headers(self, content: str | None, deadline: Deadline, asked: str) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = content
        try:
            authorization = self.credentials.header(deadline)
        except KubeError as error:
            raise KubeError(f"{asked}: {error}", late=error.late) from error
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def tell(self, verb: str, kind: Kind, subresource: str, status: int | None) -> None:
        if self._told is not None:
            self._told(verb, kind.group, kind.plural, subresource, status)

    def words(
        self, verb: str, kind: Kind, namespace: str | None, name: str | None, subresource: str | None = None
    ) -> str:
        what = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        where = "/".join(str(one)[:253] for one in (namespace if kind.namespaced else None, name) if one is not None)
        part = f"/{subresource}" if subresource else ""
        return f"{verb} {what}{part}{' ' + where if where else ''} at {self.credentials.server}"


def as_it_came(raw: Raw) -> Raw:
    """For what is no object."""
    return raw


def checked(
    kind: Kind, namespace: str | None, name: str | None, subresource: str | None, asked: str, *, named: bool = True
) -> str:
    """The path. Raises Invalid: an empty name would mean the whole collection, a slash another resource."""
    if named and not (name and _NAME.fullmatch(name)):
        raise Invalid(f"{asked}: not asked for, since {str(name)[:80]!r} is no name")
    if namespace is not None and not _NAME.fullmatch(namespace):
        raise Invalid(f"{asked}: not asked for, since {namespace[:80]!r} is no namespace")
    if named and kind.namespaced and namespace is None:
        raise Invalid(f"{asked}: not asked for, since no namespace is named")
    return kind.path(namespace, quote(name, safe="") if name else None, subresource)
