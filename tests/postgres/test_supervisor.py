"""Holds the tests of the embedded Postgres: real servers, real signals, real leftovers."""

import psycopg
import pytest

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_gets_an_empty_database_of_its_own(database_url: str, attempt: int) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
