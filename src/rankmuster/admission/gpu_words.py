"""What a GPU says of itself, by the words of `nvidia-smi -q`, whichever of NVML, the text or the XML it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankmuster.model.node_path import GpuPath
from rankmuster.model.unknown import Unknown

NOT_THERE = frozenset({"", "n/a", "not supported", "none reported", "requested functionality has been deprecated"})
"""What nvidia-smi prints, without brackets, where a model or a driver has no such thing: unknown, never zero."""

NO_ANSWER = frozenset(
    {
        "unknown error",
        "gpu requires reset",
        "gpu is lost",
        "insufficient permissions",
        "err!",
        "error",
        "function not found",
        "uninitialized",
        "not found",
        "timeout",
    }
)
"""What it prints instead of an answer: words of NVML's errors (nvmlErrorString)."""

IN_TROUBLE = frozenset({"gpu requires reset", "gpu is lost"})
"""Of these what is said of the GPU, whatever was asked."""

_NUMBER = re.compile(r"\d{1,18}(?![\d.])")
_LINK_ERROR = re.compile(r"nvlink / link (\d{1,3}) / ([\w ]{1,40})")


def subject(gpu: GpuPath) -> str:
    """`GPU 2 (0000:9b:00)`."""
    return f"GPU {gpu.index}" if isinstance(gpu.bus_id, Unknown) else f"GPU {gpu.index} ({gpu.bus_id})"


def _bare(value: str) -> str:
    return value.strip().strip("[]").strip().lower()


@dataclass(frozen=True, slots=True)
class Said:
    """Facts by their keys in lower case, blanks for underscores: text and XML then differ in few names."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, gpu: GpuPath) -> Said:
        """All of one GPU's facts."""
        return cls({key.lower().replace("_", " "): value.strip() for key, value in gpu.facts.items()})

    def word(self, *keys: str) -> str | None:
        """The value of the first key that says something; keys in lower case."""
        for key in keys:
            value = self.values.get(key)
            if value is not None and _bare(value) not in NOT_THERE | NO_ANSWER:
                return value
        return None

    def yes(self, *keys: str) -> bool | None:
        """The same as yes or no; None for any other word, which nobody may take for no."""
        return {"yes": True, "no": False}.get((self.word(*keys) or "").lower())

    def unanswered(self, *keys: str) -> bool:
        """Whether one of these was asked and something else than an answer came back, or nothing that can be read."""
        return any(_bare(self.values[key]) in NO_ANSWER for key in keys if key in self.values)

    def trouble(self) -> str | None:
        """What the driver says of the GPU instead of an answer, if that is a fault of it."""
        return next((value for value in self.values.values() if _bare(value) in IN_TROUBLE), None)

    def number(self, *keys: str) -> int | None:
        """The same as a whole number: `0`, `3072 bank(s)`, `16x`, `0 us`."""
        word = self.word(*keys)
        match = _NUMBER.match(word) if word is not None else None
        return int(match.group()) if match else None

    def below(self, prefix: str) -> Iterator[tuple[str, str]]:
        """(rest of the key, value) of all facts of a section that say something."""
        for key, value in self.values.items():
            if key.startswith(prefix) and _bare(value) not in NOT_THERE | NO_ANSWER:
                yield key[len(prefix) :], value

    def keys(self, prefix: str) -> list[str]:
        """Rests of the keys of a section, whether they say something or not."""
        return [key[len(prefix) :] for key in self.values if key.startswith(prefix)]

    def link_counters(self) -> dict[tuple[int, str], int | None]:
        """(link, counter) -> count of NVLinks; None where a counter says no number."""
        found: dict[tuple[int, str], int | None] = {}
        for key, value in self.values.items():
            if match := _LINK_ERROR.fullmatch(key):
                number = _NUMBER.match(value)
                found[int(match.group(1)), match.group(2).replace(" ", "_")] = int(number.group()) if number else None
        return found

    def link_errors(self) -> dict[tuple[int, str], int]:
        """(link, counter) -> count, for counters of NVLinks that are not zero."""
        return {key: count for key, count in self.link_counters().items() if count}
