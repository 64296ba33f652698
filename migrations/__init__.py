"""Owns how the schema came to be, one Alembic revision after the other.
Never imports the engine's tables into a revision: a revision means for ever what it meant when it was written.
Called by engine.store.database.migrate and by the `alembic` command (CONCH_POSTGRES__URL names the database).
"""
