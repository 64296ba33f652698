"""Owns how tests read the audit: through the views that analysts get, and row by row for completeness.

Never writes, except where a test says that it tampers. Called by the system tests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

Row = dict[str, Any]


class Audit:
    """The audit of one database. Connects when it is first asked, and again after the server was away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Row] | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, query: str, *values: object) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, row_factory=dict_row)
            set_json_loads(partial(json.loads, parse_float=Decimal), self._connection)
        return self._connection.execute(query.encode(), values).fetchall()

    def tamper(self, statement: str, *values: object) -> None:
        """Change rows behind the gateway's back."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def request(self, key: int | str) -> Row:
        """The row of `audit.requests`."""
        (row,) = self.ask("SELECT * FROM audit.requests WHERE process_instance_key = %s", int(key))
        return row

    def requests(self) -> list[Row]:
        return self.ask("SELECT * FROM audit.requests ORDER BY process_instance_key")

    def refusal(self, request_id: str) -> Row:
        (row,) = self.ask("SELECT * FROM audit.refusals WHERE request_id = %s", request_id)
        return row

    def attempts(self, key: int | str) -> list[Row]:
        query = "SELECT * FROM audit.attempts WHERE process_instance_key = %s ORDER BY attempt_no"
        return self.ask(query, int(key))

    def steps(self, key: int | str) -> list[Row]:
        return self.ask("SELECT * FROM audit.steps WHERE process_instance_key = %s ORDER BY position", int(key))

    def elements(self, key: int | str) -> list[str]:
        """The ids of the elements that the request passed, in order."""
        return [step["element_id"] for step in self.steps(key)]

    def decisions(self, key: int | str) -> list[Row]:
        return self.ask("SELECT * FROM audit.decisions WHERE process_instance_key = %s ORDER BY position", int(key))

    def usage(self, key: int | str) -> list[Row]:
        return self.ask("SELECT * FROM audit.usage WHERE process_instance_key = %s ORDER BY position", int(key))

    def count(self, table: str) -> int:
        (row,) = self.ask(f"SELECT count(*) AS rows FROM {table}")
        return int(row["rows"])

    def broken(self, keys: Sequence[int]) -> list[str]:
        """What is wrong with the rows of these instances: a start, an end, no gap, and an end that says when.

        Empty when each of them is whole.
        """
        query = """
            SELECT process_instance_key AS key,
                array_agg(position ORDER BY position) FILTER (WHERE position > 0) AS facts,
                array_agg(kind ORDER BY position) FILTER (WHERE position > 0) AS kinds,
                count(*) FILTER (WHERE kind = 'instance_ended') AS ends,
                min(state) FILTER (WHERE kind = 'instance_ended') AS state
            FROM record WHERE process_instance_key = ANY(%s) GROUP BY 1
        """
        found = {row["key"]: row for row in self.ask(query, list(keys))}
        wrong = []
        for key in keys:
            row = found.get(key)
            if row is None:
                wrong.append(f"{key} has no rows")
                continue
            if row["facts"] != list(range(1, len(row["facts"]) + 1)):
                wrong.append(f"{key} has a gap: {row['facts']}")
            if row["kinds"][0] != "instance_started" or row["kinds"][-1] != "instance_ended" or row["ends"] != 1:
                wrong.append(f"{key} is not from start to end: {row['kinds']}")
        return wrong
