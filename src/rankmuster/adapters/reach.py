"""A command on another node: what is put before it, and how it is known that it began there.

A node that is drained, or away, keeps a launcher waiting for ever. That says nothing of the node's GPUs, and must not
look like a check that hung: so the command says a word on standard error before it begins.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

BEGUN = "rankmuster: begun on this node"

_SHELL = f'cd / && echo "{BEGUN}" >&2 && exec "$@"'


def on_node(reach: Sequence[str], node: str, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` on `node`. `reach`: `{node}` in it is the name; empty: here.

    ssh gives what follows to a shell, so that is quoted for one; anything else (srun, kubectl exec) gets it as it is.
    """
    whole = ["/bin/sh", "-c", _SHELL, "sh", *command]
    if not reach:
        return whole
    before = [part.replace("{node}", node) for part in reach]
    by_shell = any(part.rpartition("/")[2] == "ssh" for part in reach)
    return [*before, shlex.join(whole)] if by_shell else [*before, *whole]


def begun(output: bytes) -> bool:
    """Whether the command said that it began."""
    return BEGUN.encode() in output


def after_begin(output: bytes) -> bytes:
    """What it said itself."""
    return output.replace(BEGUN.encode() + b"\n", b"")


def same_host(one: str, other: str) -> bool:
    """Whether two names can be of one host: alike, or one of them short."""
    mine, theirs = one.casefold().rstrip("."), other.casefold().rstrip(".")
    if mine == theirs:
        return True
    both_long = "." in mine and "." in theirs
    return not both_long and mine.partition(".")[0] == theirs.partition(".")[0]
