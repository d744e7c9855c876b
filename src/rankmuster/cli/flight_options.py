"""What `rankmuster flight` and `rankmuster flight merge` can be asked to show, each option said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.flight_choice import ranks_of
from rankmuster.cli.flight_slow import SlowAsked

MOST_GROUPS = 8
"""Groups told in full: two screens. The others are counted by kind."""

MOST_RECORDS = 20
"""Records of each rank that are printed: what is outstanding and what came right before it."""


class Format(str, Enum):
    """How the report is written."""

    TERMINAL = "terminal"
    JSON = "json"
    JSONL = "jsonl"


Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME", help="Only this group: name, description or number; may repeat."),
]
Ranks = Annotated[
    list[str] | None,
    typer.Option("--rank", metavar="RANKS", help="Only groups and records of these ranks, like 0,3,8-15."),
]
Stacks = Annotated[
    bool, typer.Option("--stacks", help="What the culprit's host called last, beside what its victims stand at.")
]
Entries = Annotated[bool, typer.Option("--entries", help="Print the records, with their stacks if --stacks.")]
AlignedToo = Annotated[
    bool, typer.Option("--aligned", help="The last numbers of each group told in full, members side by side.")
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", metavar="N", min=0, help="Records of each rank, or numbers side by side, the newest ones; 0: all."
    ),
]
MostGroups = Annotated[
    int, typer.Option("--groups", metavar="N", min=0, help="Groups told in full; the others are counted.")
]
Differences = Annotated[
    int, typer.Option("--differences", metavar="N", min=0, help="Differing numbers told of a group behind the first.")
]
Form = Annotated[
    Format, typer.Option("--format", help="terminal: to read; json: the schema; jsonl: one record a line.")
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to show of a set of dumps, and how. `limit`: records of each rank, None for all. `ranks`: None for all."""

    ranks: frozenset[int] | None
    group: Sequence[str]
    stacks: bool
    entries: bool
    aligned: bool
    limit: int | None
    most_groups: int
    differences: int
    form: Format
    output: Path | None
    width: int | None
    no_color: bool
    slow: SlowAsked


def asked(
    group: list[str] | None,
    rank: list[str] | None,
    *,
    stacks: bool,
    entries: bool,
    aligned: bool,
    limit: int,
    most_groups: int,
    differences: int,
    form: Format,
    output: Path | None,
    width: int | None,
    no_color: bool,
    slow: SlowAsked,
) -> Asked:
    """The options as given. Raises CommandError for what is no list of ranks."""
    return Asked(
        ranks=ranks_of(rank or []),
        group=group or (),
        stacks=stacks,
        entries=entries,
        aligned=aligned,
        limit=limit or None,
        most_groups=most_groups,
        differences=differences,
        form=form,
        output=output,
        width=width,
        no_color=no_color,
        slow=slow,
    )
