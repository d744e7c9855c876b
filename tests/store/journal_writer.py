"""A runner at a journal as a process of its own: `journal_writer.py URL HOW NAME`; it waits for a line to begin.

`lease`: takes the lease of llm-0. `open`: opens an incident of llm-0. `reserve`: opens one of its own and asks for a
rebuild where two may last. `append`: writes 40 events into one of its own. `endless`: takes llm-0 and writes for ever,
saying each sequence after it was written. `half`: writes within a transaction that never ends.
"""

from __future__ import annotations

import sys
import time

from journal_made import START, at_most, begun, noted, opening
from rankmuster.model.incident import UseKind
from rankmuster.store import journal_incidents
from rankmuster.store.journal import Journal


def act(journal: Journal, how: str, name: str) -> object:
    if how == "lease":
        lease = journal.take_lease("llm-0", name, 600)
        return None if lease is None else lease.token
    if how == "open":
        return " ".join(map(str, journal.open_incident(opening(), name)))
    if how == "reserve":
        incident, lease = begun(journal, name)
        permit = journal.reserve(incident, lease, [(UseKind.REBUILD, name)], at_most(2), 3600, START)  # type: ignore[arg-type]
        return permit.allowed
    if how == "append":
        incident, lease = begun(journal, name)
        return [journal.append(incident, lease, noted(str(one))).sequence for one in range(40)][-1]
    incident, lease = begun(journal)
    if how == "half":
        with journal._writing("writing half") as connection:
            row = journal_incidents.locked(connection, incident)
            journal_incidents.add(connection, row, noted("half"))
            print("half", flush=True)
            time.sleep(600)
    while True:
        print(journal.append(incident, lease, noted()).sequence, flush=True)


if __name__ == "__main__":
    url, how, name = sys.argv[1:]
    with Journal.open(url) as journal:
        print("ready", flush=True)
        sys.stdin.readline()
        print(act(journal, how, name), flush=True)
