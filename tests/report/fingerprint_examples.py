"""The examples of docs/fingerprint.md, made by the program from the machines of `build_path`."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from baseline.fingerprint.build_path import h200_vm, hgx
from baseline.fingerprint.mutations import MUTATIONS, software
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.changes import changes
from rankmuster.model.unknown import Unknown
from rankmuster.report import fingerprint_diff, fingerprint_terminal
from rankmuster.report.fingerprint_yaml import as_yaml

WIDTH = 100


def printed(render: Callable[[Console], None]) -> str:
    file = io.StringIO()
    render(Console(file=file, width=WIDTH, highlight=False))
    return file.getvalue()


def screen() -> str:
    found = fingerprint_of(h200_vm())
    return printed(lambda console: fingerprint_terminal.render(found, console))


def unknown_screen() -> str:
    found = fingerprint_of(software(h200_vm(), image_digest=Unknown("in a container whose digest no variable names")))
    return "\n".join(printed(lambda console: fingerprint_terminal.render(found, console)).splitlines()[:5]) + "\n"


def head() -> str:
    """The stored form up to its raw material."""
    text = as_yaml(fingerprint_of(replace(hgx(), host="node-17")))
    return text[: text.index("madeFrom:")]


def compared(*names: str) -> str:
    path = hgx()
    for name in names:
        path = MUTATIONS[name](path)
    one, other = fingerprint_of(hgx()), fingerprint_of(path)
    found = changes(one, other)
    return printed(lambda console: fingerprint_diff.render(one, other, found, console))


EXAMPLES = {
    "screen": screen,
    "unknown": unknown_screen,
    "yaml": head,
    "no sys": lambda: compared("no sys"),
    "degraded": lambda: compared("links lost", "rate", "gpu swapped"),
    "rollout": lambda: compared("driver", "nccl", "proto"),
}
