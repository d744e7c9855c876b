"""Slow collectives for notebooks: parquet, one row per distribution, or one per collective; units in column names.

Needs pyarrow (the extra `parquet`), imported when something is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankmuster.model.slow import CollectiveTable, Operation, SlowReport

SCHEMA = "rankmuster.slow-parquet/1"

_QUANTILES = ("min", "p50", "p90", "p99", "p999", "max")

_MOST_INT = (1 << 63) - 1


class ParquetMissing(RuntimeError):
    """pyarrow is not installed; the message names the extra that brings it."""


def write(report: SlowReport) -> bytes:
    """A parquet file with one row per (group, op, size, dtype, rank): its distributions, NaN-free, unknown ones null.

    The same report gives the same columns. Raises ParquetMissing.
    """
    arrow = _arrow()
    table = report.ranks
    columns: dict[str, Any] = {
        **_operation_columns(arrow, report.operations, table.operation),
        "rank": arrow.array(table.rank, arrow.int64()),
        "n": arrow.array(table.count, arrow.int64()),
        "last_n": arrow.array(table.last, arrow.int64()),
        "waited_for_s": arrow.array(table.waited_s, arrow.float64()),
    }
    for name, values in (("duration", table.duration), ("wait", table.wait), ("behind", table.behind)):
        for place, quantile in enumerate(_QUANTILES):
            columns[f"{name}_{quantile}_ms"] = arrow.array(values[:, place], arrow.float64(), from_pandas=True)
    return _file(arrow, columns, report)


def write_collectives(report: SlowReport) -> bytes:
    """A parquet file with one row per collective: number, time, transfer, wait, who came last (null: cannot be told).

    Needs a report measured with `collectives=True`; one without has no rows. Raises ParquetMissing.
    """
    arrow = _arrow()
    none = np.zeros(0, dtype=np.int64)
    nothing = np.zeros(0)
    table = report.collectives or CollectiveTable(none, none, nothing, nothing, nothing, none)
    columns: dict[str, Any] = {
        **_operation_columns(arrow, report.operations, table.operation),
        "seq": arrow.array(table.seq, arrow.int64()),
        "created_unix_s": arrow.array(table.created, arrow.float64()),
        "transfer_ms": arrow.array(table.transfer, arrow.float64(), from_pandas=True),
        "wait_ms": arrow.array(table.wait, arrow.float64(), from_pandas=True),
        "last_rank": arrow.array(table.last, arrow.int64(), mask=table.last < 0),
    }
    return _file(arrow, columns, report)


def _operation_columns(arrow: Any, operations: Sequence[Operation], which: Any) -> dict[str, Any]:
    """What the rows' operations are, texts as dictionaries: a file of a million rows holds each once."""

    def texts(of: Callable[[Operation], str]) -> Any:
        values = [of(one) for one in operations]
        distinct = list(dict.fromkeys(values))
        place = {value: index for index, value in enumerate(distinct)}
        indexes = np.array([place[value] for value in values], dtype=np.int32)[which]
        return arrow.DictionaryArray.from_arrays(
            arrow.array(indexes, arrow.int32()), arrow.array(distinct, arrow.string())
        )

    def numbers(of: Callable[[Operation], int | None]) -> Any:
        values = [of(one) for one in operations]
        known = np.array([0 if value is None else min(value, _MOST_INT) for value in values], dtype=np.int64)[which]
        unknown = np.array([value is None for value in values], dtype=bool)[which]
        return arrow.array(known, arrow.int64(), mask=unknown)

    return {
        "operation": arrow.array(which, arrow.int64()),
        "group": texts(lambda one: _sound(one.label)),
        "group_key": numbers(lambda one: one.group),
        "role": texts(lambda one: _sound(one.key.role)),
        "layout": texts(lambda one: one.key.layout),
        "op": texts(lambda one: _sound(one.key.op)),
        "size": texts(lambda one: one.key.size),
        "dtype": texts(lambda one: _sound(one.key.dtype)),
        "message_bytes": numbers(lambda one: one.bytes),
        "group_ranks": numbers(lambda one: len(one.members)),
    }


def _sound(text: str) -> str:
    """Without lone surrogates, which no UTF-8 holds."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _file(arrow: Any, columns: dict[str, Any], report: SlowReport) -> bytes:
    parquet = _module("pyarrow.parquet")
    facts = {
        b"schema": SCHEMA.encode(),
        b"window_from_unix_s": repr(report.window[0]).encode(),
        b"window_to_unix_s": repr(report.window[1]).encode(),
        b"instance": _sound(report.surroundings.instance or "").encode(),
    }
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns).replace_schema_metadata(facts), sink, compression="zstd")
    return bytes(sink.getvalue())


def _arrow() -> Any:
    return _module("pyarrow")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ParquetMissing(
            f"writing parquet needs pyarrow, which cannot be imported ({error}): pip install 'rankmuster[parquet]'"
        ) from None
