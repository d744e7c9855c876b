"""JSON values: copies, and times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def copied(value: Any) -> Any:
    """A copy that shares nothing which could be changed."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(one) for one in value]
    return value


def stamp(seconds: float) -> str:
    """metav1.Time: whole seconds, UTC."""
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(seconds: float) -> str:
    """metav1.MicroTime, as Leases have it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
