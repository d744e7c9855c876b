"""Parts of queries that both databases understand in their own way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, String, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY


def among(connection: Connection, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """`column IN values` with one parameter however many they are: SQLite allows 999 or 32,766 by its version."""
    if connection.dialect.name == "sqlite":
        listed = func.json_each(literal(json.dumps(list(values)), String)).table_valued("value")
        return column.in_(select(listed.c.value))
    return column == any_(literal(list(values), ARRAY(column.type)))
