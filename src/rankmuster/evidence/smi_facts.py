"""Facts of one GPU while its text is being read: nested keys joined, repeated keys numbered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rankmuster.model.topology import GpuFacts

SEPARATOR = " / "
MAX_FACTS = 4096
"""Keys of one GPU; a driver of 2026 prints about 250, a GPU with many processes some hundreds more."""
MAX_DEPTH = 12


class FactSheet:
    """Collects `facts` of the GPU at `bus_id` (normalised, None where not said)."""

    def __init__(self, bus_id: str | None) -> None:
        self.bus_id = bus_id
        self.facts: dict[str, str] = {}
        self._again: dict[str, int] = {}

    def add(self, path: Iterable[str], value: str) -> None:
        """One value; a process list repeats its keys, the second becomes `key #2`."""
        if len(self.facts) >= MAX_FACTS:
            return
        key = SEPARATOR.join(list(path)[-MAX_DEPTH:])
        if key in self.facts:
            self._again[key] = self._again.get(key, 1) + 1
            key = f"{key} #{self._again[key]}"
        self.facts[key] = value


def gpu_facts(
    source: str,
    host: str | None,
    sheets: Sequence[FactSheet],
    shared: Mapping[str, str],
    *,
    attached: str,
    uuid: str,
    name: str,
) -> tuple[list[GpuFacts], bool]:
    """(the GPUs of one text, whether these are all that are attached).

    `attached`, `uuid`, `name`: the keys under which the text writes them. Only where all GPUs are in the text is a
    GPU's position its index.
    """
    whole = shared.get(attached) == str(len(sheets))
    found = []
    for index, sheet in enumerate(sheets):
        facts = {**shared, **sheet.facts}
        found.append(
            GpuFacts(source, host, index if whole else None, sheet.bus_id, facts.get(uuid), facts.get(name), facts)
        )
    return found, whole
