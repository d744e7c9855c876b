"""What is given to `bench pairs` and `admit pairs`, read and checked: rails, results of pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.given import bytes_of
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.baseline.pairs import PairResult
    from rankmuster.bench.rails import Rail

MOST_RESULTS = 64 << 20
"""Bytes of one file of results: a line has 200, a thousand nodes' rails some MB."""


def rails_of(of_this_machine: bool, words: Sequence[str]) -> tuple[Rail, ...]:
    """The rails of this machine, or those of `--rail GPU=NIC`; none where neither is asked for. Raises CommandError."""
    from rankmuster.bench.rails import NoRails, Rail

    if of_this_machine and words:
        raise CommandError("--rails takes them from this machine, --rail names them; give one of both")
    if of_this_machine:
        from rankmuster.bench.rails_here import rails_here

        try:
            return rails_here(os.environ)
        except NoRails as error:
            raise CommandError(
                f"this machine's rails are not known: {error}; name them with --rail 0=mlx5_0"
            ) from error
    found = []
    for word in words:
        number, equals, nics = word.partition("=")
        listed = tuple(nic for nic in nics.split(",") if nic)
        if not equals or not number.isdigit() or not listed:
            raise CommandError(f"--rail wants GPU=NIC, like 0=mlx5_0, not {word!r}")
        found.append(Rail(int(number), listed))
    return tuple(found)


def pair_results(files: Sequence[Path]) -> tuple[PairResult, ...]:
    """Results of pairs, as `bench pairs --save` writes them. Raises CommandError."""
    from rankmuster.baseline.pairs_file import NotPairs, read_lines

    found: list[PairResult] = []
    for path in files:
        try:
            found += read_lines(bytes_of(path, MOST_RESULTS, "set of results"), str(path))
        except NotPairs as error:
            raise CommandError(str(error)) from error
    return tuple(found)


def known_of(files: Sequence[Path], nodes: Sequence[str]) -> tuple[PairResult, ...]:
    """Results of earlier pairs of these nodes. Raises CommandError, also where a file speaks of other nodes."""
    found = pair_results(files)
    strange = sorted({node for one in found for node in one.pair} - set(nodes))
    if strange:
        raise CommandError(f"--results speak of {', '.join(strange[:4])}, which --nodes does not name")
    return found
