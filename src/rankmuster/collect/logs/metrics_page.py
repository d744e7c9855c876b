"""Which addresses lead to one server, and whether what it answers is a metrics page at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from rankmuster.collect.logs.http_get import Page

MAX_SERVERS = 16
"""Servers asked: an instance with a server a data-parallel rank has at most one a GPU."""

_SAMPLE = re.compile(rb"^(?:# (?:HELP|TYPE) |[A-Za-z_:][\w:]*(?:\{[^\n]*\})? +[-+\d.NI])", re.MULTILINE)


def by_port(urls: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Addresses of one host by port, in their order: its loopback and its rails lead to the same server."""
    found: dict[str, tuple[str, ...]] = {}
    for url in urls:
        try:
            parts = urlsplit(url)
            key = str(parts.port or (443 if parts.scheme == "https" else 80))
        except ValueError:
            key = "0"
        found[key] = (*found.get(key, ()), url)
    return found


def shown(url: str) -> str:
    """The address as it may be written down: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that is no URL"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}{parts.path}"


def problem(page: Page) -> str | None:
    """Why an answer is no metrics page; None where it is one."""
    if page.status in (401, 403):
        return f"status {page.status}: it wants a key, and none is sent"
    if page.status == 404:
        return "status 404: no metrics there (SGLang needs --enable-metrics, TensorRT-LLM return_perf_metrics)"
    if page.status != 200:
        return f"status {page.status} with {len(page.body)} bytes"
    if page.encoding:
        return f"it answers in {page.encoding[:20]} although it was asked for plain text"
    if _SAMPLE.search(page.body[:65536]) is None:
        return f"no metrics page; it begins {page.body[:40]!r}"
    return "longer than 16 MiB" if page.cut else None
