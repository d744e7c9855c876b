"""Parts of queries that both databases understand in their own way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, String, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from rankmuster.store.plain import CELL_NAMES, VALUE_NUMBERS
from rankmuster.store.schema import cell_table, result_table


def among(connection: Connection, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """`column IN values` with one parameter however many they are: SQLite allows 999 or 32,766 by its version."""
    if connection.dialect.name == "sqlite":
        listed = func.json_each(literal(json.dumps(list(values)), String)).table_valued("value")
        return column.in_(select(listed.c.value))
    return column == any_(literal(list(values), ARRAY(column.type)))


def results_of(connection: Connection, ids: Sequence[int]) -> Select[Any]:
    """The results of runs, run by run in their order: the run's number, its cell (`CELL_NAMES`), `VALUE_NUMBERS`."""
    cell = [cell_table.c[name] for name in CELL_NAMES]
    return (
        select(result_table.c.run_id, *cell, *(result_table.c[name] for name in VALUE_NUMBERS))
        .join(cell_table, cell_table.c.id == result_table.c.cell_id)
        .where(among(connection, result_table.c.run_id, ids))
        .order_by(result_table.c.run_id, result_table.c.position)
    )
