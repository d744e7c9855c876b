"""Bundles on the node's disk: they outlive their pod, this process and a reboot, and they never fill the disk.

A bundle and a card beside it (`NAME.json`: whose it is, its digest, whether it has been uploaded). The bundle comes
first and the card last, both by a rename, so that what has a card is whole. What lies there without one after a crash
is swept. Room is made of the oldest that has been uploaded, then of the oldest; the newest of an instance is not given
up while it is young, since it may be the only evidence that there is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from rankmuster.adapters.kube.agent_wire import POD_UID, SHA256
from rankmuster.kube.agents.wire import BUNDLE_NAME, UID

MOST_BUNDLES = 64
MOST_BYTES = 8 << 30
"""Of all bundles together: some hundred of eight ranks with long logs."""

LEAST_FREE = 1 << 30
"""Bytes of the disk that stay free: a node whose disk is full evicts pods."""

KEPT_DAYS = 7
KEEP_SECONDS = KEPT_DAYS * 86_400.0
"""For which the newest of an instance is kept whatever comes. Each pod of a Deployment is an instance of its own, and a
node has hundreds of them in a year."""

MAX_CARD = 64 << 10
PIECE = 256 << 10


class NotKept(Exception):
    """The bundle is not kept; `status`: as HTTP has it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Card:
    """`at`: unix seconds when it came. `instance`: as the sender says, empty where it does not. `uploaded`: where to,
    empty where it is here alone."""

    name: str
    sha256: str
    bytes: int
    pod_uid: str
    at: float
    instance: str = ""
    uploaded: str = ""

    def listed(self) -> dict[str, Any]:
        """As the wire has it."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "pod_uid": self.pod_uid,
            "at": self.at,
            "instance": self.instance,
            "uploaded": bool(self.uploaded),
        }


class Shelf:
    """One folder. `now`: unix seconds. Raises OSError where the folder cannot be made."""

    def __init__(
        self,
        folder: Path,
        now: Callable[[], float],
        *,
        most_bundles: int = MOST_BUNDLES,
        most_bytes: int = MOST_BYTES,
        least_free: int = LEAST_FREE,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._now = now
        self._most_bundles, self._most_bytes, self._least_free = most_bundles, most_bytes, least_free
        self._lock = threading.Lock()
        self._cards = self._read()

    def cards(self, pod_uid: str | None = None) -> list[Card]:
        """Oldest first; of one pod where it is named."""
        with self._lock:
            found = [card for card in self._cards.values() if pod_uid is None or card.pod_uid == pod_uid]
        return sorted(found, key=lambda card: (card.at, card.name))

    def card(self, name: str) -> Card | None:
        """Of one bundle."""
        with self._lock:
            return self._cards.get(name)

    def open(self, name: str) -> IO[bytes] | None:
        """None where it is not here (any more)."""
        if self.card(name) is None:
            return None
        try:
            return open(self.folder / name, "rb")
        except OSError:
            return None

    def put(
        self, name: str, length: int, read: Callable[[int], bytes], *, sha256: str, pod_uid: str, instance: str = ""
    ) -> Card:
        """Takes `length` bytes. The same bundle again is kept once. Raises NotKept, and what `read` raises."""
        if BUNDLE_NAME.fullmatch(name) is None:
            raise NotKept(400, "a bundle is called letters, digits and ._- and ends in .tar.zst")
        if UID.fullmatch(pod_uid) is None:
            raise NotKept(400, f"{POD_UID} is missing, or is no UID")
        known = self.card(name)
        if known is not None:
            if known.sha256 == sha256:
                return known
            raise NotKept(409, f"{name} is here already with other content: a bundle is never written over")
        if length == 0:
            raise NotKept(400, "an empty bundle is none")
        newer = {instance or pod_uid}
        with self._lock:
            leaving = self._leaving(length, newer)
            if self._free() - length < self._least_free:  # else they stay until this one is whole
                for card in leaving:
                    self._drop(card)
        part = self.folder / f".{secrets.token_hex(8)}.part"
        try:
            digest = hashlib.sha256()
            with open(part, "xb") as file:
                os.fchmod(file.fileno(), 0o600)
                while piece := read(PIECE):
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != sha256:
                raise NotKept(422, f"what came has sha256 {digest.hexdigest()}, and not what {SHA256} says")
            card = Card(name, sha256, length, pod_uid, self._now(), instance)
            with self._lock:
                if name in self._cards:
                    return self._cards[name]
                for least in self._leaving(length, newer, here=length):
                    self._drop(least)
                os.rename(part, self.folder / name)
                self._write(card)
                self._cards[name] = card
            return card
        except OSError as error:
            raise NotKept(507, f"it cannot be written here: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    def uploaded(self, name: str, url: str) -> None:
        """Says that there is a copy elsewhere."""
        with self._lock:
            card = self._cards.get(name)
            if card is None:
                return
            card = self._cards[name] = replace(card, uploaded=url)
            with contextlib.suppress(OSError):  # then it is uploaded again after a restart, and found there
                self._write(card)

    def _leaving(self, wanted: int, newer: set[str], *, here: int = 0) -> list[Card]:
        """Who makes room for so many bytes, of which some are `here` on the disk. `newer`: whose newest bundle is on
        its way. Raises NotKept."""
        free = self._free() + here
        gone: list[Card] = []
        left = sorted(self._cards.values(), key=lambda card: (card.at, card.name))
        while not self._fits(left, wanted, free + sum(card.bytes for card in gone)):
            least = self._least_wanted(left, newer)
            if least is None:
                held = sum(card.bytes for card in self._cards.values())
                raise NotKept(
                    507,
                    f"no room for {wanted} bytes: {len(self._cards)} bundle(s) with {held} bytes are here, {free} "
                    f"bytes of the disk are free, and the newest of an instance is kept for {KEPT_DAYS} days",
                )
            left.remove(least)
            gone.append(least)
        return gone

    def _fits(self, left: list[Card], wanted: int, free: int) -> bool:
        held = sum(card.bytes for card in left)
        full = len(left) >= self._most_bundles or held + wanted > self._most_bytes
        return not full and free - wanted >= self._least_free

    def _least_wanted(self, ordered: list[Card], newer: set[str]) -> Card | None:
        """Of cards from the oldest on."""
        newest = {card.instance or card.pod_uid: card.name for card in ordered}
        old = self._now() - KEEP_SECONDS
        given = [card for card in ordered if newest[key := card.instance or card.pod_uid] != card.name or key in newer]
        given = given or [card for card in ordered if card.at < old]
        return min(given, key=lambda card: (not card.uploaded, card.at), default=None)

    def _drop(self, card: Card) -> None:
        for path in (self._card_path(card.name), self.folder / card.name):  # the card first: see `_read`
            with contextlib.suppress(OSError):
                path.unlink()
        del self._cards[card.name]

    def _free(self) -> int:
        try:
            said = os.statvfs(self.folder)
        except OSError:
            return 0
        return said.f_bavail * said.f_frsize

    def _card_path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _write(self, card: Card) -> None:
        path = self._card_path(card.name)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        said = {**card.listed(), "uploaded": card.uploaded}
        with open(part, "x", encoding="ascii") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, path)

    def _read(self) -> dict[str, Card]:
        """What is whole; everything else of ours is swept."""
        found: dict[str, Card] = {}
        names = set(os.listdir(self.folder))
        for name in sorted(names):
            path = self.folder / name
            if name.startswith(".") and name.endswith(".part"):
                with contextlib.suppress(OSError):
                    path.unlink()
            elif BUNDLE_NAME.fullmatch(name):
                card = self._one(name)
                if card is not None:
                    found[name] = card
                elif f"{name}.json" not in names:
                    with contextlib.suppress(OSError):
                        path.unlink()
        return found

    def _one(self, name: str) -> Card | None:
        try:
            with open(self._card_path(name), "rb") as file:
                said = json.loads(file.read(MAX_CARD))
            size = os.stat(self.folder / name).st_size
            card = Card(
                name,
                str(said["sha256"]),
                int(said["bytes"]),
                str(said["pod_uid"]),
                float(said["at"]),
                str(said.get("instance") or ""),
                str(said.get("uploaded") or ""),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return card if size == card.bytes else None
