"""The history as parquet: five tables, in a folder a file each, or all in one file with a column that says which.

Made for notebooks (flat columns with units) and for taking a history elsewhere (nothing is left out). Needs pyarrow,
the extra `parquet`, imported when something is read or written.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from rankmuster.store.failures import missing
from rankmuster.store.parquet_seal import UNSEALED

SCHEMA = "rankmuster.history-parquet/1"

KIND = "kind"
"""The column of a single file that names a row's table."""

ALL = "all"

_CELL = {"operation": "string", "size_bytes": "int64", "dtype": "string", "in_place": "bool", "graph": "bool"}

TABLES: dict[str, dict[str, str]] = {
    "runs": {
        **dict.fromkeys(("record", "class_hash", "kin_hash", "node_hash", "host", "profile", "tool"), "string"),
        "started_at": "double",  # unix seconds
        **dict.fromkeys(("state", "reason"), "string"),
        **dict.fromkeys(("settings", "choices"), "string"),  # JSON
        "results": "int64",  # how many rows of `results` belong to it
    },
    "results": {
        "record": "string",
        "position": "int64",
        **_CELL,
        **dict.fromkeys(("time_us", "busbw", "min_us", "p50_us", "p99_us"), "double"),  # microseconds, GB/s
        **dict.fromkeys(("cv_percent", "rank_spread_percent"), "double"),
    },
    "fingerprints": {
        "host": "string",
        "taken_at": "double",  # unix seconds
        **dict.fromkeys(("node_hash", "class_hash", "kin_hash", "topology_hash", "gpu_model"), "string"),
        "gpu_count": "int64",
        "document": "binary",
        **dict.fromkeys(("class_settings", "class_definition"), "string"),  # JSON
    },
    "changes": {
        **dict.fromkeys(("class_hash", "profile"), "string"),
        **_CELL,
        **dict.fromkeys(("at", "level_before", "level_after"), "double"),  # unix seconds, GB/s
        "nodes": "int64",
        **dict.fromkeys(("state", "note"), "string"),
        "kept_out_until": "double",  # unix seconds
    },
    "admissions": {
        **dict.fromkeys(("hash", "decision", "class_hash", "profile", "node_names"), "string"),  # node_names: JSON
        **dict.fromkeys(("started_at", "ended_at"), "double"),  # unix seconds
        "document": "binary",
    },
}
"""Columns of every table with their types, by arrow's names; a column means the same wherever it is."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """pyarrow's two modules, which have no types of their own."""

    arrow: Any
    parquet: Any

    def schema(self, kind: str, counts: str, export: str = "") -> Any:
        """The columns of a table or, of `ALL`, of every table. `counts`: JSON, rows by table in the whole export;
        `export`: what its files have in common, and those of another do not."""
        if kind == ALL:
            columns = {KIND: "string"} | {name: type_ for table in TABLES.values() for name, type_ in table.items()}
        else:
            columns = TABLES[kind]
        fields = [self.arrow.field(name, self.arrow.type_for_alias(type_)) for name, type_ in columns.items()]
        facts = {"schema": SCHEMA, KIND: kind, "counts": counts, "export": export, "seal": UNSEALED}
        return self.arrow.schema(fields, metadata=facts)


def arrow() -> Arrow:
    """Raises StoreMissing."""
    try:
        return Arrow(importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet"))
    except ImportError as error:
        raise missing(error) from error
