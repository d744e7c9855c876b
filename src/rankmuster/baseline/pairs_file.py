"""Results of pairs as lines of JSON (schema `rankmuster.pair/1`), so that measuring can be interrupted and taken up."""

from __future__ import annotations

import json
import math

from rankmuster.baseline.pairs import PairResult

SCHEMA = "rankmuster.pair/1"

MOST_NAME = 253  # characters: of a host's full name
MOST_REASON = 2_000


class NotPairs(Exception):
    """The text holds no results of pairs; the message says which line and what is wrong with it."""


def as_line(result: PairResult) -> str:
    """One line, with its end."""
    values = {
        "schema": SCHEMA,
        "first": result.first,
        "second": result.second,
        "rail": result.rail,
        "busbw": result.busbw,
        "reason": result.reason[:MOST_REASON],
    }
    return json.dumps(values, ensure_ascii=False) + "\n"


def read_lines(data: bytes, source: str) -> tuple[PairResult, ...]:
    """Raises NotPairs. A last line that was cut is refused like any other: it may have been a bad result."""
    found = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(_read(line))
        except KeyError as error:
            raise NotPairs(f"{source}, line {number}: no result of a pair (it has no {error.args[0]})") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise NotPairs(f"{source}, line {number}: no result of a pair ({error})") from error
    return tuple(found)


def _read(line: str) -> PairResult:
    values = json.loads(line)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    names = [values["first"], values["second"]]
    if not all(isinstance(name, str) and 0 < len(name) <= MOST_NAME for name in names) or names[0] == names[1]:
        raise ValueError("it does not name two nodes")
    rail, busbw, reason = values["rail"], values["busbw"], values["reason"]
    if rail is not None and (not isinstance(rail, int) or isinstance(rail, bool) or rail < 0):
        raise ValueError("rail is no number of a GPU")
    if busbw is not None and (
        not isinstance(busbw, (int, float)) or isinstance(busbw, bool) or not math.isfinite(busbw) or busbw < 0
    ):
        raise ValueError("busbw is no bandwidth")
    if not isinstance(reason, str):
        raise ValueError("reason is no text")
    return PairResult(names[0], names[1], None if busbw is None else float(busbw), reason[:MOST_REASON], rail)
