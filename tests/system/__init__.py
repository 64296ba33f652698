"""Owns the tests of the whole: a real gateway process, a real Postgres, real Triton servers."""
