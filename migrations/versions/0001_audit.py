"""The audit: the record table and its views, deployed definitions, leases, seals and dead letters."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Straight to the driver: these files hold many statements, and text() would read their colons as parameters.
    cursor = op.get_bind().connection.cursor()
    for name in ("0001_tables.sql", "0001_views.sql"):
        cursor.execute(Path(__file__).with_name(name).read_text())


def downgrade() -> None:
    raise NotImplementedError("the audit only grows; restore a backup instead")
