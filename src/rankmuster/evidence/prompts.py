"""The host in a shell's prompt above a command's output: `user@host:~$ lspci -vvv`."""

from __future__ import annotations

import re

_PROMPT = re.compile(r"^\s*[\[(]?[\w.\-]{1,64}@([A-Za-z0-9][\w.\-]{0,252})[: ][^$#%]{0,200}[$#%] ")


def host_of_prompt(line: str) -> str | None:
    """None where the line is no prompt with a host in it."""
    match = _PROMPT.match(line[:512])
    return match.group(1) if match else None
