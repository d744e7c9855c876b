"""Values as torch and NCCL read them, and what is wrong with those that they cannot read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.environment.variable import Kind, Reader, Variable

_TRUE = frozenset({"1", "y", "yes", "t", "true"})
_FALSE = frozenset({"0", "n", "no", "f", "false"})
"""What torch's getCvarBool takes, in any case; anything else makes it raise."""
_LEADING = re.compile(r"\s*([+-]?\d{1,18})")


_STRANGE = re.compile(r"""[{}="'`;<>]|[:,]\s""")
MOST_WORDS = 2
"""A path may have a blank; a sentence is no value of any of these variables."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A value that does not do what its writer meant. `fatal`: the process will not come up with it."""

    what: str
    fatal: bool


def read_flag(text: str | None) -> bool | None:
    """True, False, or None for what torch would refuse."""
    if text is None:
        return None
    lower = text.strip().lower()
    return True if lower in _TRUE else False if lower in _FALSE else None


def read_number(text: str | None) -> int | None:
    """The leading number, as C's functions read it; None where there is none."""
    match = _LEADING.match(text or "")
    return int(match.group(1)) if match else None


def problem(variable: Variable, value: str) -> Wrong | None:
    """What is wrong with `value`, None when it is fine."""
    if variable.kind is Kind.FLAG and variable.reader is Reader.TORCH:
        if read_flag(value) is None:
            return Wrong(f"is {quoted(value)}, which torch does not take for a yes or no; it raises at start", True)
        return None
    if variable.kind in (Kind.COUNT, Kind.SECONDS, Kind.MILLISECONDS, Kind.FLAG):
        return _number_problem(variable, value)
    if variable.kind is Kind.WORD and value.strip().upper() not in variable.words:
        return Wrong(f"is {quoted(value)}; known are {', '.join(variable.words)}", False)
    if variable.kind is Kind.PREFIX and not value.strip():
        return Wrong("is empty", False)
    if variable.kind is Kind.ADDRESS and not address(value):
        return Wrong(f"is {quoted(value)}; it must be host:port, like localhost:28100", False)
    return None


def _number_problem(variable: Variable, value: str) -> Wrong | None:
    number = read_number(value)
    if number is None:
        effect = "torch raises at start" if variable.reader is Reader.TORCH else "the default stays"
        return Wrong(f"is {quoted(value)}, which is no number; {effect}", variable.reader is Reader.TORCH)
    if value.strip() != str(number) and value.strip().lstrip("+") != str(number):
        return Wrong(f"is {quoted(value)}; only the leading {number} is read", False)
    least, most = variable.least, variable.most
    if (least is not None and number < least) or (most is not None and number > most):
        return Wrong(f"is {number}; sensible is {least} to {most} {_unit(variable)}".rstrip(), False)
    return None


def _unit(variable: Variable) -> str:
    return variable.kind.value if variable.kind in (Kind.SECONDS, Kind.MILLISECONDS) else ""


def address(value: str) -> tuple[str, int] | None:
    """(host, port) of `localhost:28028`, `10.0.0.1:28028`, `[::1]:28028`; None for anything else."""
    host, colon, port = value.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
        return None
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        return None
    return (host[1:-1] if bracketed else host), int(port)


def quoted(value: str) -> str:
    """A value of a known variable for people: printable, and cut."""
    visible = shown(value)
    return f"'{visible[:60]}'" + (" [cut]" if len(visible) > 60 else "")


def shown(value: str) -> str:
    """The value, unless it looks as if a broken line had put something else into it, which may be a secret."""
    if _STRANGE.search(value) or len(value.split()) > MOST_WORDS:
        return f"({len(value)} characters, not shown)"
    return "".join(c if c.isprintable() else "?" for c in value)
