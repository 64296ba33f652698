"""Owns what every test folder shares: the fixtures of the real parts. Holds no test."""

pytest_plugins = [
    "tests.postgres_fixtures",
    "tests.triton_fixtures",
    "tests.store_fixtures",
    "tests.gateway_fixtures",
]
