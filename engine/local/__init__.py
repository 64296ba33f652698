"""Owns the local parts of a zero-setup run: an embedded Postgres and a Triton launcher.

Never runs against a production database or fleet; those are reached by URL.
Called by the composition root and the test suites.
"""
