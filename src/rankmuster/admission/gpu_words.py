"""What a GPU says of itself, by the words of `nvidia-smi -q`, whichever of NVML, the text or the XML it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankmuster.model.node_path import GpuPath
from rankmuster.model.unknown import Unknown

NOT_SAID = frozenset({"", "n/a", "[n/a]", "[not supported]", "not supported", "unknown error", "[unknown error]"})
"""What nvidia-smi prints where the driver or the GPU does not know: unknown, never zero."""

_NUMBER = re.compile(r"-?\d{1,18}")
_LINK_ERROR = re.compile(r"nvlink / link (\d{1,3}) / ([\w ]{1,40})")


def subject(gpu: GpuPath) -> str:
    """`GPU 2 (0000:9b:00)`."""
    return f"GPU {gpu.index}" if isinstance(gpu.bus_id, Unknown) else f"GPU {gpu.index} ({gpu.bus_id})"


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
            if value is not None and value.lower() not in NOT_SAID:
                return value
        return None

    def number(self, *keys: str) -> int | None:
        """The same as a whole number: `0`, `3072 bank(s)`, `16x`, `0 us`."""
        word = self.word(*keys)
        match = _NUMBER.match(word) if word is not None else None
        return int(match.group()) if match else None

    def below(self, prefix: str) -> Iterator[tuple[str, str]]:
        """(rest of the key, value) of all facts of a section that say something."""
        for key, value in self.values.items():
            if key.startswith(prefix) and value.lower() not in NOT_SAID:
                yield key[len(prefix) :], value

    def link_errors(self) -> dict[tuple[int, str], int]:
        """(link, counter) -> count, for counters of NVLinks that are not zero."""
        found = {}
        for key, value in self.values.items():
            match, number = _LINK_ERROR.fullmatch(key), _NUMBER.match(value)
            if match and number and int(number.group()):
                found[int(match.group(1)), match.group(2).replace(" ", "_")] = int(number.group())
        return found
