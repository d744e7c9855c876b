"""Shell, .env, `env` output, a Dockerfile's ENV: one NAME=value a line. Nothing is executed."""

from __future__ import annotations

import re
import shlex

from rankmuster.environment.given import Given, communication, engine_of, ray_of, sifted

_ASSIGNMENT = re.compile(r"^\s*(?:(?:export|ENV|declare -x|set -x|setenv|-e|--env)\s+)?([A-Za-z_]\w{0,200})=(.*)$")
_COMMENT = re.compile(r"^\s*(#.*)?$")
_EXPANSION = re.compile(r"\$[\w({@*#?!-]|`")
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])*""")
_PARTS = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""")
_PROGRAM = re.compile(
    r"(?:\S*/)?(?:python[\d.]*|vllm|sglang|trtllm-\S+|torchrun|mpirun|mpiexec|srun|ray|accelerate|numactl|taskset|uv|nohup|"
    r"env|exec|bash|sh)"
)
"""What variables are set for on one line (`NCCL_DEBUG=INFO vllm serve`); else blanks belong to a dumped value."""
_KEYWORDS = re.compile(r"^\s*(mkdir|set|source|\.|if|then|fi|else|for|do|done|cd|echo|exec|unset|trap|exit|test|\[)\b")


def looks_like_shell(text: str) -> bool:
    """Whether its first line that says anything assigns a variable, or is a command before such a line."""
    for line in text.splitlines()[:2000]:
        if _COMMENT.match(line) or line.startswith("#!"):
            continue
        if _ASSIGNMENT.match(line):
            return True
        if not _KEYWORDS.match(line):
            return False
    return False


def read_shell(text: str, name: str) -> Given:
    """The last assignment of a name counts. What depends on other variables or commands is unknown, not guessed."""
    values: dict[str, str] = {}
    unknown: set[str] = set()
    odd: list[str] = []
    for number, line in _joined(text):
        if _COMMENT.match(line):
            continue
        for key, value, clear in _assignments(line):
            values.pop(key, None)
            unknown.discard(key)
            if value is None:
                odd.append(f"line {number}: the quotes of {key} do not close")
            elif clear:
                values[key] = value
            else:
                unknown.add(key)
    kept = sifted(values)
    dark = frozenset(sifted(dict.fromkeys(unknown, "")))
    return Given(
        name,
        kept,
        dark,
        tuple(odd),
        engine=engine_of(_commands(text)),
        ray=ray_of(text, values),
        communication=communication(values),
    )


def _joined(text: str) -> list[tuple[int, str]]:
    """Lines, those that a backslash continues put together."""
    found: list[tuple[int, str]] = []
    begun: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        start = start if begun else number
        if line.endswith("\\") and not line.endswith("\\\\"):
            begun.append(line[:-1])
            continue
        found.append((start, "".join((*begun, line))))
        begun = []
    if begun:
        found.append((start, "".join(begun)))
    return found


def _assignments(line: str) -> list[tuple[str, str | None, bool]]:
    """(name, value, whether the value is what it will be); a value of None: its quotes do not close."""
    match = _ASSIGNMENT.match(line)
    if match is None:
        return []
    key, raw = match.groups()
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        # a line of `env` may hold one quotation mark, and is not shell
        return [(key, None if raw[:1] in ("'", '"') else raw, True)]
    pairs = [word.partition("=") for word in words if re.match(r"[A-Za-z_]\w*=", word)]
    first = next((at for at, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*=", word)), 0)
    if first and _PROGRAM.fullmatch(words[first]):
        return [(name, value, _clear(line, name)) for name, _, value in pairs[:first]]
    if raw and len(words) > 1 and len(pairs) + (words[0] in ("export", "ENV")) < len(words) and words[0] != "declare":
        value = raw.strip() if line.lstrip().startswith(("export", "ENV")) else raw
        return [(key, value, _clear(line, key))]
    return [(name, value, _clear(line, name)) for name, _, value in pairs]


def _clear(line: str, name: str) -> bool:
    """Whether a value has no expansion in it that a shell would make."""
    begun = re.search(rf"(?<!\w){name}=", line)  # not the end of a longer name
    word = _WORD.match(line, begun.end() if begun else 0)
    # in double quotes a shell expands, single ones in them too
    read = _PARTS.sub(lambda part: part.group() if part.group()[0] == '"' else "", word.group() if word else line)
    return _EXPANSION.search(read) is None


def _commands(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not _COMMENT.match(line) and not _ASSIGNMENT.match(line))
