"""Rules for free text: tokens, keys, passwords, users' texts, and addresses that do not belong to the instance.

A rule-based scrubber cannot know every secret. It masks what has a known form, what stands behind a telling name, and
what users wrote; everything that the evidence readers parse survives byte for byte, and so does the number of lines.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from rankmuster.collect.strip.addresses import Addresses
from rankmuster.collect.strip.following import scrub_following
from rankmuster.collect.strip.pem import scrub_pem
from rankmuster.collect.strip.prompts import scrub_prompts
from rankmuster.collect.strip.secrets import scrub_secrets

_WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le", 1), (codecs.BOM_UTF16_BE, "utf-16-be", 0))
_PROBE = 512
_MAX_ROUNDS = 8
"""Rounds after which a text counts as scrubbed; two or three are usual where anything is masked."""
_APART = b"---"
"""Between lines that do not follow each other: no text, list or block goes on over it."""


@dataclass(frozen=True)
class Scrubber:
    """A rule for one instance; the same on all of its nodes gives the same pseudonyms. Callable on bytes."""

    addresses: Addresses = field(default_factory=Addresses)

    def __call__(self, data: bytes) -> bytes:
        """`data` in its own encoding with secrets replaced; idempotent, linear, the same number of lines."""
        wide = _wide(data)
        if wide is not None:
            text = data.decode(wide, "surrogatepass").encode("utf-8", "surrogatepass")
            return self._scrub(text).decode("utf-8", "surrogatepass").encode(wide, "surrogatepass")
        return self._scrub(data)

    def _scrub(self, data: bytes) -> bytes:
        # A mask changes what stands around it, and so what the rules see: only a text that a whole round leaves as it
        # is will be left as it is the next time. Later rounds look at what has changed and the lines beside it: a log
        # of megabytes in which one line holds a secret is gone through once.
        once = self._round(data)
        for _ in range(_MAX_ROUNDS):
            if once == data:
                break
            data, once = once, self._again(data.split(b"\n"), once.split(b"\n"))
        return once

    def _again(self, before: list[bytes], after: list[bytes]) -> bytes:
        changed = {n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
        beside = sorted({m for n in changed for m in (n - 1, n, n + 1) if 0 <= m < len(after)})
        parts: list[bytes] = []
        places: list[int] = []
        for n in beside:
            if places and places[-1] != n - 1:
                parts.append(_APART)
                places.append(-1)
            parts.append(after[n])
            places.append(n)
        for n, line in zip(places, self._round(b"\n".join(parts)).split(b"\n"), strict=True):
            if n >= 0:
                after[n] = line
        return b"\n".join(after)

    def _round(self, data: bytes) -> bytes:
        return self.addresses.scrub(scrub_secrets(scrub_prompts(scrub_following(scrub_pem(data)))))


def _wide(data: bytes) -> str | None:
    """UTF-16 (PowerShell writes it), where it can be decoded and encoded without loss; by mark or by its NULs."""
    for mark, name, zero in _WIDE:
        head = data[:_PROBE]
        spaced = len(head) >= 16 and head[zero::2].count(0) > len(head) // 3 and head[1 - zero :: 2].count(0) == 0
        if not (data.startswith(mark) or spaced) or len(data) % 2:
            continue
        try:
            data.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return None


_DEFAULT = Scrubber()


def scrub(data: bytes) -> bytes:
    """`data` with secrets replaced, by the default rule: public addresses get a pseudonym."""
    return _DEFAULT(data)
