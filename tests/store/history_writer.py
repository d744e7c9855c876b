"""A writer of a history as a process of its own: `history_writer.py URL NAME HOW`.

`each`: puts twenty runs that every writer has and twenty of its own, one by one. `endless`: says when it began one
large transaction, and never ends it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from history_made import run
from rankmuster.model.benchmark import HistoryRun
from rankmuster.store.history import History

SHARED = [run(number) for number in range(20)]


def own(name: str) -> list[HistoryRun]:
    return [run(number, node=name) for number in range(20)]


def endless(name: str) -> Iterator[HistoryRun]:
    number = 0
    while True:
        yield run(number, node=name)
        number += 1
        if number == 1501:  # three parts of it are in the database by now
            print("began", flush=True)


if __name__ == "__main__":
    url, name, how = sys.argv[1:]
    with History.open(url) as history:
        if how == "endless":
            history.put_many(endless(name))
        else:
            both = SHARED + own(name) if int(name[-1]) % 2 else own(name) + SHARED[::-1]
            print(sum(history.put(one) for one in both))
