"""Client of the sidecars' and node agents' own wire: what they see, bundles that they take, and bundles left with them.

Who is asked may be gone, stuck, somebody else at a reused address, or lying: every answer has an end in time and in
size, a bundle gets its name only when it is whole and its sha256 is the one that was promised, and every error says who
did not answer. Nothing of what comes is executed or believed to be well formed. The token is read at each call, since
secrets are renewed under running programs; it is in no message.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from rankmuster.adapters.http_call import NotCalled, Reply, call
from rankmuster.adapters.kube.agent_wire import (
    BUNDLE_NAME,
    DIGEST,
    ENDING,
    POD_UID,
    SHA256,
    CollectWish,
    Fetched,
    LeftBundle,
    NoAnswer,
    Peer,
    host_of,
    left_bundle,
    sidecar_of,
)
from rankmuster.collect.bundle.digest import digest_of
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.strip.secrets import scrub_words
from rankmuster.model.kube import SIDECAR_PORT, PodView
from rankmuster.report.inert import plain

MOST_BUNDLE = 2 << 30
"""Bytes of one bundle, as of another host's (`adapters.collect_here`)."""

MOST_JSON = 16 << 20
"""Bytes of a watch's snapshot or a fingerprint: of a node with 8 GPUs it has 200 KiB."""

MOST_TOKEN = 4096
MOST_LEFT = 200
"""Bundles of one pod that a list may name; more are not looked at."""


class AgentCall:
    """Calls of sidecars and agents. Thread-safe: it holds nothing but settings.

    `token_file`: None: no token is sent. `most_bundle`: bytes of one bundle.
    """

    def __init__(self, token_file: str | Path | None, *, most_bundle: int = MOST_BUNDLE) -> None:
        self._token_file = Path(token_file) if token_file is not None else None
        self._most = most_bundle

    def healthy(self, peer: Peer, deadline: Deadline) -> None:
        """Raises NoAnswer where it is not."""
        self._good(peer, self._call("GET", peer, "/healthz", deadline, token=False, most=4096))

    def state(self, pod: PodView, deadline: Deadline, *, port: int = SIDECAR_PORT) -> dict[str, Any]:
        """The watch's snapshot of a pod, as its state file has it. Raises NoAnswer (`status` 503: none now)."""
        peer = sidecar_of(pod, port)
        return self._object(peer, self._call("GET", peer, "/v1/state", deadline, most=MOST_JSON), "snapshot")

    def fingerprint(self, peer: Peer, deadline: Deadline, *, again: bool = False) -> dict[str, Any]:
        """Of an agent's node; `again`: not the one that it has. Raises NoAnswer."""
        path = "/v1/fingerprint" + ("?again=1" if again else "")
        return self._object(peer, self._call("GET", peer, path, deadline, most=MOST_JSON), "fingerprint")

    def collect(self, peer: Peer, wish: CollectWish, path: Path, deadline: Deadline) -> Fetched:
        """Has a bundle taken, and brings it to `path`, which must not exist. Raises NoAnswer."""
        return self._fetch("POST", peer, "/v1/collect", path, deadline, wish=wish.plain())

    def left(self, peer: Peer, pod_uid: str, deadline: Deadline) -> tuple[LeftBundle, ...]:
        """What a pod's sidecar has left with an agent, the newest first. Raises NoAnswer."""
        reply = self._call("GET", peer, f"/v1/bundles?pod={quote(pod_uid, safe='')}", deadline, most=MOST_JSON)
        self._good(peer, reply)
        try:
            listed = reply.json()
        except ValueError as error:
            raise _wrong(peer, f"its list of bundles is no JSON ({error})", reply.status) from error
        if not isinstance(listed, list):
            raise _wrong(peer, "its list of bundles is no list", reply.status)
        found = [one for entry in listed[:MOST_LEFT] if (one := left_bundle(entry, pod_uid)) is not None]
        return tuple(sorted(found, key=lambda one: -one.at))

    def fetch(self, peer: Peer, left: LeftBundle, path: Path, deadline: Deadline) -> Fetched:
        """Brings one that was left. Raises NoAnswer."""
        place = f"/v1/bundles/{quote(left.name, safe='')}"
        return self._fetch("GET", peer, place, path, deadline, expected=left.sha256)

    def put(self, peer: Peer, name: str, bundle: Path, pod_uid: str, deadline: Deadline) -> str:
        """Leaves a bundle with an agent; returns its sha256. Raises NoAnswer."""
        if not BUNDLE_NAME.fullmatch(name):
            raise NoAnswer(f"{peer.who}: {plain(name, 80)} is no name of a bundle; wanted is NAME.tar.zst")
        try:
            with bundle.open("rb") as file:
                size, sha256 = digest_of(file)
                file.seek(0)
                headers = {
                    "Content-Type": "application/zstd",
                    "Content-Length": str(size),
                    SHA256: sha256,
                    POD_UID: pod_uid,
                }
                reply = self._call("PUT", peer, f"/v1/bundles/{name}", deadline, headers=headers, body=file)
        except OSError as error:
            raise NoAnswer(f"{bundle} could not be read ({error.strerror or error})") from error
        self._good(peer, reply)
        return sha256

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _fetch(
        self,
        method: str,
        peer: Peer,
        place: str,
        path: Path,
        deadline: Deadline,
        *,
        wish: Mapping[str, Any] | None = None,
        expected: str | None = None,
    ) -> Fetched:
        beside = path.with_name(f".{path.name[:150]}.{uuid.uuid4().hex[:8]}.part")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoAnswer(f"{peer.who} was not asked: {path} cannot be written ({error.strerror})") from error
        try:
            with os.fdopen(descriptor, "wb") as file:
                writer = _Writer(file)
                body = json.dumps(wish).encode() if wish is not None else None
                reply = self._call(method, peer, place, deadline, body=body, most=self._most, write=writer)
                self._good(peer, reply)
                if reply.cut:
                    raise _wrong(peer, f"its bundle has more than {self._most >> 20} MiB", reply.status)
                promised = reply.headers.get(SHA256.lower(), "").strip().lower()
                if not DIGEST.fullmatch(promised):
                    raise _wrong(peer, f"it sent {writer.size} bytes without saying their sha256", reply.status)
                if writer.sha256 != promised or (expected is not None and promised != expected):
                    raise _wrong(peer, "what came is not what it said that it sends (sha256)", reply.status)
                if not writer.size:
                    raise _wrong(peer, "its bundle is empty", reply.status)
                writer.flush()
            os.link(beside, path)
        except _NoRoom as error:
            raise NoAnswer(f"{peer.who} answered, and {path} cannot be written ({error})") from error
        except OSError as error:
            raise NoAnswer(f"{peer.who} answered, and {path} cannot be written ({error.strerror})") from error
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
        whole = reply.headers.get(ENDING.lower(), "done").strip().lower() != "partial"
        return Fetched(path, writer.sha256, writer.size, whole)

    def _call(
        self,
        method: str,
        peer: Peer,
        path: str,
        deadline: Deadline,
        *,
        token: bool = True,
        headers: Mapping[str, str] | None = None,
        body: bytes | IO[bytes] | None = None,
        most: int = MOST_JSON,
        write: _Writer | None = None,
    ) -> Reply:
        host = host_of(peer)
        sent = {**(headers or {}), **(self._token(peer) if token else {})}
        if peer.uid is not None:
            sent[POD_UID] = peer.uid  # an address is given away again: whoever has it now must be able to refuse
        try:
            return call(
                method,
                f"http://{host}:{peer.port}{path}",
                deadline,
                headers=sent,
                body=body,
                most=most,
                write=write,
            )
        except NotCalled as error:
            late = deadline.passed
            raise NoAnswer(
                f"{peer.who} ({peer.place}) did not answer: {error}", status=error.status, late=late
            ) from error

    def _token(self, peer: Peer) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            descriptor = os.open(self._token_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = file.read(MOST_TOKEN + 1) if regular else b""
        except OSError as error:
            why = f"the token's file {self._token_file} cannot be read ({error.strerror or error})"
            raise NoAnswer(f"{peer.who} was not asked: {why}") from error
        token = data.strip()
        if not token or len(data) > MOST_TOKEN or any(not 0x21 <= one <= 0x7E for one in token):
            raise NoAnswer(f"{peer.who} was not asked: {self._token_file} holds no token (one line of ASCII is wanted)")
        return {"Authorization": f"Bearer {token.decode('ascii')}"}

    def _good(self, peer: Peer, reply: Reply) -> None:
        """Raises NoAnswer for every other status."""
        if reply.good:
            return
        if reply.status == 401:
            raise _wrong(peer, "it does not accept our token (status 401): do both read the same secret?", 401)
        raise _wrong(peer, f"status {reply.status}{_said(reply)}", reply.status)

    def _object(self, peer: Peer, reply: Reply, what: str) -> dict[str, Any]:
        self._good(peer, reply)
        try:
            found = reply.json()
        except ValueError as error:
            raise _wrong(peer, f"its {what} is no JSON ({error})", reply.status) from error
        if not isinstance(found, dict):
            raise _wrong(peer, f"its {what} is no object", reply.status)
        return found


class _NoRoom(Exception):
    """What came could not be written here."""


class _Writer:
    """Takes the pieces of a bundle: to the file, with their digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    def __call__(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise _NoRoom(error.strerror or str(error)) from error
        self._hash.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def flush(self) -> None:
        """To the disk."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _NoRoom(error.strerror or str(error)) from error


def _said(reply: Reply) -> str:
    try:
        found = reply.json()
        words = found.get("error") if isinstance(found, dict) else None
    except ValueError:
        words = reply.text()[:300]
    text = plain(scrub_words(" ".join(str(words).split())), 300) if words else ""
    return f": {text}" if text else ""


def _wrong(peer: Peer, what: str, status: int) -> NoAnswer:
    return NoAnswer(f"{peer.who} ({peer.place}): {what}", status=status)
