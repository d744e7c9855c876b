"""What every word of a verdict means, how it is told apart from its look-alikes, and where to look further.

The entries stand in `catalogue_<class>.py`, one a sub-kind; the words in `catalogue_words.py`; what to do and what
not to do stands in `recovery.py` alone. `docs/verdict.md` lists the same names, and a test keeps them together.
"""

from __future__ import annotations

import difflib

from rankmuster.diagnose import (
    catalogue_desync,
    catalogue_init,
    catalogue_lost,
    catalogue_performance,
    catalogue_transport,
)
from rankmuster.diagnose.catalogue_entry import Entry
from rankmuster.diagnose.catalogue_words import FIELDS, WORDS, Word
from rankmuster.model.fault import Subkind

CLOSE_ENOUGH = 0.5  # difflib ratio: below the library's 0.6, since names are long and typed from memory

ENTRIES: dict[Subkind, Entry] = {
    entry.subkind: entry
    for part in (
        catalogue_init.ENTRIES,
        catalogue_desync.ENTRIES,
        catalogue_transport.ENTRIES,
        catalogue_performance.ENTRIES,
        catalogue_lost.ENTRIES,
    )
    for entry in part
}


def entry_of(name: str) -> Entry | None:
    """The entry of the sub-kind with that name."""
    try:
        return ENTRIES.get(Subkind(canonical(name)))
    except ValueError:
        return None


def words_of(name: str) -> tuple[Word, ...]:
    """All words with that name (`blind` is a class and a state of a plane), or all words of the field of that name."""
    wanted = canonical(name)
    field = wanted.replace("_", " ")
    return tuple(word for word in WORDS if word.name == wanted) or tuple(word for word in WORDS if word.kind == field)


def close_names(name: str) -> list[str]:
    """Names that may have been meant, best first; parts of a name count too (`mismatch`)."""
    known = names()
    wanted = canonical(name)
    parts = [key for key in known if len(wanted) > 2 and wanted in key]
    alike = difflib.get_close_matches(wanted, known, n=4, cutoff=CLOSE_ENOUGH)
    return list(dict.fromkeys(parts + alike))[:6]


def names() -> list[str]:
    """Everything that can be explained, once each."""
    fields = [field.replace(" ", "_") for field in FIELDS]
    return list(dict.fromkeys([*(sub.value for sub in ENTRIES), *(word.name for word in WORDS), *fields]))


def canonical(name: str) -> str:
    """As a verdict writes it, from what people type: `Collective-Desync/missing-enter` -> `missing_enter`."""
    return name.strip().lower().rsplit("/", 1)[-1].replace("-", "_").replace(" ", "_")
