"""The token that controller, sidecars and agents share, in a file that a Secret keeps up to date."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

MAX_BYTES = 4096
LEAST = 16
"""Characters: a shorter one can be guessed."""


class Token:
    """Read at each request: a Secret that is changed or comes late counts at once, without a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def value(self) -> str | None:
        """None where there is no usable one."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                said = file.read(MAX_BYTES).decode("ascii").strip()
        except (OSError, ValueError):
            return None
        return said if len(said) >= LEAST and said.isprintable() else None

    def allows(self, authorization: str) -> bool | None:
        """Whether the header has it; compared in constant time. None: there is nothing to compare with."""
        value = self.value()
        if value is None:
            return None
        kind, _, said = authorization.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(
            said.strip().encode("latin-1", "replace"), value.encode()
        )

    def header(self) -> dict[str, str]:
        """For a request of our own; empty without a token."""
        value = self.value()
        return {"Authorization": f"Bearer {value}"} if value is not None else {}
