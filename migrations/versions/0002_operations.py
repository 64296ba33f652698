"""Instances that live on: scopes and called processes, the life of an incident, messages, signals and start timers."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Straight to the driver: these files hold many statements, and text() would read their colons as parameters.
    cursor = op.get_bind().connection.cursor()
    for name in ("0002_tables.sql", "0002_views.sql"):
        cursor.execute(Path(__file__).with_name(name).read_text())


def downgrade() -> None:
    raise NotImplementedError("the audit only grows; restore a backup instead")
