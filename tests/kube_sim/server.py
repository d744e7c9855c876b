"""The simulated API server: HTTP on loopback in front of a Store, with faults, records and roles.

`running.serving` runs it in a thread, `serve` as a process.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from aiohttp import web

from kube_sim import control, discovery, reading, remote, subresources, writing
from kube_sim.access import Access, User
from kube_sim.call import Answer, Call, encoded, refusal
from kube_sim.faults import Fault, Faults, Harm
from kube_sim.problems import ApiProblem, expired, forbidden, no_such_path
from kube_sim.recorder import Asked, Recorder
from kube_sim.routes import Target, target_of, verb_of
from kube_sim.store import Store
from kube_sim.watching import Watching, line_of

READY = ("/healthz", "/livez", "/readyz")
YES = ("1", "true", "True")
MOST_BODY = 3 << 20
"""Bytes, as the real server's."""

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Noted = Callable[[int], None]


class Server:
    """`url`: where it is, once it serves. `faults`, `recorder`, `access`, `watching`: what tests turn and look at.
    `kubelet`: does exec and log; it may be set later. `remote_control`: whether all that is reached over HTTP too (see
    `control`). `failures`: what no request should ever lead to; `running.serving` raises it in the end."""

    def __init__(
        self,
        store: Store,
        *,
        kubelet: remote.Kubelet | None = None,
        bookmark_seconds: float = 60.0,
        remote_control: bool = False,
    ) -> None:
        self.store, self.kubelet = store, kubelet
        self.faults, self.recorder, self.access = Faults(), Recorder(), Access(store)
        self.watching = Watching(store, bookmark_seconds)
        self.url = ""
        self.failures: list[Exception] = []
        self._remote_control = remote_control

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Of aiohttp: one request."""
        target = target_of(request.path, self.store.kinds())
        verb = verb_of(request.method, bool(target and target.name), request.query.get("watch") in YES)
        agent, user, name = request.headers.get("User-Agent", ""), User(""), target and target.name

        def noted(status: int) -> None:
            if target is None:
                self.recorder.add(Asked(verb, "", "", "", None, None, agent, user.name, status, request.path))
                return
            info, within = target.info, target.namespace
            subresource = target.subresource
            self.recorder.add(
                Asked(verb, info.group, info.plural, subresource, within, name, agent, user.name, status, request.path)
            )

        try:
            given = await request.read()
            user = self.access.user(request.headers.get("Authorization"))
            if target is None:
                answer = self._plain(request, given, user)
                noted(answer.status)
                return _response(answer)
            call = Call(verb, target, request.query, given, request.content_type, agent, user.name)
            name = name or _name(call)
            self._need(user, verb, target)
            fault = self.faults.strike(verb, target, name, agent)
            return await self._answered(request, call, fault, user, noted)
        except ApiProblem as problem:
            noted(problem.status)
            return _response(refusal(problem))
        except web.HTTPRequestEntityTooLarge:
            noted(413)
            message = f"Request entity too large: limit is {MOST_BODY}"
            return _response(refusal(ApiProblem(413, "RequestEntityTooLarge", message)))
        except ConnectionAbortedError:
            noted(0)
            return _cut(request)
        except ConnectionError:
            raise  # the caller has left
        except Exception as error:
            self.failures.append(error)
            noted(500)
            return _response(refusal(ApiProblem(500, "InternalError", f"the simulated server failed: {error!r}")))

    def _need(self, user: User, verb: str, target: Target) -> None:
        """Raises ApiProblem 403."""
        info, part = target.info, target.subresource
        if not self.access.allows(user, verb, info.group, info.plural, part, target.namespace, target.name):
            raise forbidden(info.plural, info.group, target.name or "", user.name, verb, target.namespace, part)

    def _plain(self, request: web.Request, given: bytes, user: User) -> Answer:
        """What is about no resource."""
        path = request.path.rstrip("/")
        if path in READY:
            return Answer(b"ok", kind="text/plain")
        if self._remote_control and path.startswith(control.ROOT):
            return Answer(encoded(control.controlled(self, request.method, path, request.query, given)))
        if path == "/version":
            return Answer(encoded(discovery.version()))
        if path == _REVIEW and request.method == "POST":
            return self._review(given, user)
        body, kind = discovery.answer(path, self.store.kinds(), request.headers.get("Accept", ""))
        return Answer(encoded(body), kind=kind)

    def _review(self, given: bytes, user: User) -> Answer:
        target = target_of("/api/v1/pods", self.store.kinds())
        assert target is not None
        body = Call("create", target, {}, given, "application/json", "", user.name).body()
        asked = (body.get("spec") or {}).get("resourceAttributes") or {} if isinstance(body, dict) else {}
        allowed = self.access.allows(
            user,
            asked.get("verb", ""),
            asked.get("group", ""),
            asked.get("resource", ""),
            asked.get("subresource", ""),
            asked.get("namespace"),
            asked.get("name"),
        )
        return Answer(encoded({**body, "status": {"allowed": allowed}}), 201)

    async def _answered(
        self, request: web.Request, call: Call, fault: Fault | None, user: User, noted: Noted
    ) -> web.StreamResponse:
        harm = fault.harm if fault is not None else None
        if fault is not None and harm is Harm.SLOW:
            await asyncio.sleep(fault.seconds)
        elif fault is not None and harm is Harm.REFUSE:
            raise fault.problem()
        elif harm is Harm.CUT_BEFORE:
            raise ConnectionAbortedError
        elif fault is not None and harm is Harm.PLAIN:
            noted(fault.status)
            text = f"<html><body><h1>{fault.status}</h1></body></html>"
            return web.Response(status=fault.status, text=text, content_type="text/html")
        if call.verb == "watch":
            noted(200)
            return await self._watch(request, call, harm)
        if call.target.info.key == "pods" and call.target.subresource in ("exec", "log"):
            do = remote.execute if call.target.subresource == "exec" else remote.log
            return await do(self.store, self.kubelet, request, call.target, noted)
        answer = self._done(call, user, noted)
        if fault is not None and harm is Harm.SLOW_AFTER:
            await asyncio.sleep(fault.seconds)
        if harm is Harm.CUT_AFTER:
            raise ConnectionAbortedError
        noted(answer.status)
        if harm is Harm.HALF:
            return await _half(request, answer)
        if harm is Harm.GARBAGE:
            return web.Response(body=b'\x00\xff{"kind": "Pod", <<<', content_type="application/json")
        return web.Response() if harm is Harm.EMPTY else _response(answer)

    def _done(self, call: Call, user: User, noted: Noted) -> Answer:
        store, target, verb = self.store, call.target, call.verb
        part = target.subresource
        if part == "scale" and (target.info.scale or target.info.custom) and verb in ("get", "update", "patch"):
            return subresources.scaled(store, call)
        if part == "ephemeralcontainers" and target.info.key == "pods":
            return subresources.ephemeral(store, call)
        if part and verb == "create":
            return subresources.posted(store, call)
        if part not in ("", "status") or (part and not target.info.status) or (part and verb == "delete"):
            raise no_such_path()
        if verb == "get":
            return reading.get(store, call)
        if verb == "list":
            return reading.listed(store, call)
        if verb == "create" and target.name is None:
            return writing.create(store, call)
        if verb == "update" and target.name is not None:
            return writing.update(store, call)
        if verb == "patch" and target.name is not None:
            return writing.patch(store, call, lambda: self._may_create(call, user))
        if verb == "delete":
            return writing.delete(store, call)
        if verb == "deletecollection":
            return writing.delete_many(store, call)
        raise ApiProblem(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _may_create(self, call: Call, user: User) -> None:
        """An apply that makes an object needs the right to create as well."""
        target = call.target
        self._need(user, "create", target)
        info = target.info
        self.recorder.add(
            Asked("create", info.group, info.plural, "", target.namespace, target.name, call.agent, user.name)
        )

    async def _watch(self, request: web.Request, call: Call, harm: Harm | None) -> web.StreamResponse:
        silent = harm is Harm.SILENT
        lines = self.watching.lines(call, silent=silent)
        reading.version_of(call)
        reading.selected(self.store, call, at=None)  # selectors that are wrong are told before the stream begins
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            if harm is Harm.GONE:
                oldest = self.store.resource_version
                await response.write(line_of("ERROR", expired(reading.version_of(call) or 0, oldest).body()))
            elif harm is Harm.BROKEN:
                await response.write(b'{"type":"MODIFIED","object":{"kind":"Pod","apiVersi')
                await asyncio.sleep(0.05)
                return _cut(request)
            else:
                async for line in lines:
                    await response.write(line)
            await response.write_eof()
        except ConnectionAbortedError:
            return _cut(request)
        except ConnectionError:
            pass  # the reader has left
        finally:
            await lines.aclose()
        return response


def _name(call: Call) -> str | None:
    """Of what a POST creates."""
    if call.verb != "create":
        return None
    try:
        metadata = call.body().get("metadata") or {}
        return metadata.get("name") or metadata.get("generateName")
    except (ApiProblem, AttributeError):
        return None


def _response(answer: Answer) -> web.Response:
    response = web.Response(body=answer.body, status=answer.status, headers=dict(answer.headers))
    response.headers["Content-Type"] = answer.kind
    for one in answer.warnings:
        response.headers.add("Warning", f'299 - "{one}"'.replace("\\", "").encode("ascii", "replace").decode())
    return response


async def _half(request: web.Request, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.kind})
    response.content_length = len(answer.body)
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _cut(request: web.Request) -> web.StreamResponse:
    """The connection is reset, not closed in order."""
    if request.transport is not None:
        mine = request.transport.get_extra_info("socket")
        if mine is not None:
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()
