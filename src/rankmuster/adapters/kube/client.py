"""`Api` over the network: the official client's configuration and connections, raw JSON without its models.

Which calls are made again, and when, stands in `api.Api`; what a lost answer means is told by `KubeError.maybe`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rankmuster.adapters.kube.answers import parse
from rankmuster.adapters.kube.api import PODS, Invalid, Kind, KubeError, NotThere, Object, Ran
from rankmuster.adapters.kube.calling import USER_AGENT, Caller, Told, as_it_came, checked
from rankmuster.adapters.kube.connecting import CONNECT_SECONDS, Credentials, loader
from rankmuster.adapters.kube.executing import Asked, execute
from rankmuster.adapters.kube.retrying import Pace
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import FIELD_MANAGER

PAGE = 250
"""Objects of one page: a pod of a GPU workload has 10 to 40 KB."""

MOST_OBJECTS = 200_000
MOST_RESTARTS = 3
"""Of a list whose pages have expired (410) while it was read."""


def connect(
    kubeconfig: Path | None,
    context: str | None,
    *,
    told: Told | None = None,
    pace: Pace | None = None,
    environ: Mapping[str, str] | None = None,
    deadline: Deadline | None = None,
) -> Client:
    """A client of the cluster that is meant. Raises KubeError, which tells what was looked for; asks nobody but the
    plugins of a kubeconfig."""
    load = loader(kubeconfig, context, environ)
    return Client(Credentials(load, deadline or Deadline.after(CONNECT_SECONDS)), told=told, pace=pace)


class Client:
    """An `api.Api`."""

    def __init__(self, credentials: Credentials, *, told: Told | None = None, pace: Pace | None = None) -> None:
        self._credentials = credentials
        self._caller = Caller(credentials, told, pace or Pace())

    @property
    def server(self) -> str:
        """Scheme, host and port, for messages."""
        return self._credentials.server

    def close(self) -> None:
        """Ends idle connections."""
        self._caller.wire.close()

    # -- Api -----------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, name: str, namespace: str | None, deadline: Deadline) -> Object:
        """See Api."""
        return self._caller.call(parse, "GET", "get", kind, namespace, name, deadline, again=True)

    def list(
        self,
        kind: Kind,
        namespace: str | None,
        deadline: Deadline,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[Object, ...]:
        """See Api."""
        found: list[Object] = []
        self.visit(kind, namespace, deadline, found.append, found.clear, labels=labels, fields=fields)
        return tuple(found)

    def visit(
        self,
        kind: Kind,
        namespace: str | None,
        deadline: Deadline,
        each: Callable[[Object], object],
        anew: Callable[[], object] = lambda: None,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> None:
        """See Api. One that is so long that it expires while it is read is begun anew, MOST_RESTARTS times."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in selectors.items() if value}
        words = self._caller.words("list", kind, namespace, None)
        for left in reversed(range(MOST_RESTARTS)):
            seen, token = 0, ""
            anew()
            try:
                while True:
                    page = {**query, "limit": str(PAGE), **({"continue": token} if token else {})}
                    answer = self._caller.call(
                        parse, "GET", "list", kind, namespace, None, deadline, query=page, again=True
                    )
                    items = _items(answer, words)
                    token, seen = _continue(answer), seen + len(items)
                    for one in items:
                        each(one)
                    if not token:
                        return
                    if seen > MOST_OBJECTS:
                        raise KubeError(f"{words}: more than {MOST_OBJECTS}")
                    del answer, items
            except NotThere as error:
                if error.status != 410 or not left:
                    raise
        raise AssertionError("the last round returns or raises")

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None, deadline: Deadline) -> Object:
        """See Api."""
        query = {"fieldManager": FIELD_MANAGER}
        return self._caller.call(parse, "POST", "create", kind, namespace, None, deadline, query=query, body=body)

    def apply(
        self,
        kind: Kind,
        body: Mapping[str, Any],
        deadline: Deadline,
        *,
        force: bool = False,
        subresource: str | None = None,
        manager: str | None = None,
    ) -> Object:
        """See Api."""
        metadata = body.get("metadata")
        given: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
        query = {"fieldManager": manager or FIELD_MANAGER, "force": "true" if force else "false"}
        return self._caller.call(
            parse,
            "PATCH",
            "patch",
            kind,
            given.get("namespace") if kind.namespaced else None,
            _text(given.get("name")),
            deadline,
            query=query,
            body={"apiVersion": kind.api_version, "kind": kind.kind, **body},
            content="application/apply-patch+yaml",  # JSON is YAML
            subresource=subresource,
            again=True,
        )

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        deadline: Deadline,
        *,
        subresource: str | None = None,
        strategic: bool = False,
    ) -> Object:
        """See Api."""
        if isinstance(body, Mapping):
            content = f"application/{'strategic-merge' if strategic else 'merge'}-patch+json"
            metadata = body.get("metadata")
            bound = isinstance(metadata, Mapping) and bool(metadata.get("resourceVersion"))
        else:
            content = "application/json-patch+json"
            bound = any(one.get("op") == "test" for one in body)
        return self._caller.call(
            parse,
            "PATCH",
            "patch",
            kind,
            namespace,
            name,
            deadline,
            query={"fieldManager": FIELD_MANAGER},
            body=body,
            content=content,
            subresource=subresource,
            again=bound,
        )

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        deadline: Deadline,
        *,
        uid: str,
        foreground: bool = False,
        grace: int | None = None,
    ) -> None:
        """See Api."""
        if not uid:
            raise Invalid(
                f"{self._caller.words('delete', kind, namespace, name)}: not asked for, since its UID is not known"
            )
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Foreground" if foreground else "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        self._caller.call(as_it_came, "DELETE", "delete", kind, namespace, name, deadline, body=options, again=True)

    def log(
        self,
        name: str,
        namespace: str,
        deadline: Deadline,
        *,
        container: str | None = None,
        most_bytes: int = 4 << 20,
        previous: bool = False,
    ) -> bytes:
        """See Api. `previous`: of the container before its last restart."""
        query = {"tailLines": str(max(most_bytes // 40, 1000)), "timestamps": "false"}
        if container is not None:
            query["container"] = container
        if previous:
            query["previous"] = "true"
        raw = self._caller.call(
            as_it_came,
            "GET",
            "get",
            PODS,
            namespace,
            name,
            deadline,
            query=query,
            subresource="log",
            again=True,
            most=most_bytes,
            tail=True,
        )
        return raw.body

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        deadline: Deadline,
        *,
        most_bytes: int = 1 << 30,
        write: Any = None,
    ) -> Ran:
        """See Api. Not repeated: nobody knows whether it ran."""
        asked = self._caller.words("get", PODS, namespace, name, "exec")
        path = checked(PODS, namespace, name, "exec", asked)
        query = [("container", container), ("stdout", "true"), ("stderr", "true"), ("stdin", "false"), ("tty", "false")]
        query += [("command", one) for one in command]
        status: int | None = None
        try:
            authorization = self._credentials.header(deadline)
            target = Asked(
                asked, f"{path}?{urlencode(query)}", authorization, USER_AGENT, self._credentials.configuration
            )
            ran = execute(target, deadline, most_bytes=most_bytes, write=write)
            status = 101
            return ran
        except KubeError as error:
            status = error.status
            raise
        finally:
            self._caller.tell("get", PODS, "exec", status)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _items(answer: Object, asked: str) -> list[Object]:
    """Raises KubeError where it is no list: an answer that is none must not be read as "there are none"."""
    if "items" not in answer or not isinstance(answer["items"] or [], list):
        raise KubeError(f"{asked}: its answer is no list")
    items = answer["items"] or []
    if not all(isinstance(one, dict) for one in items):
        raise KubeError(f"{asked}: its list holds what is no object")
    return list(items)


def _continue(answer: Object) -> str:
    metadata = answer.get("metadata")
    return _text(metadata.get("continue")) if isinstance(metadata, dict) else ""
