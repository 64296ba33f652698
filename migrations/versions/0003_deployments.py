"""Deployments: every kind of file, who brought it, and which version of each serves."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Straight to the driver: these files hold many statements, and text() would read their colons as parameters.
    op.get_bind().connection.cursor().execute(Path(__file__).with_name("0003_deployments.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("the audit only grows; restore a backup instead")
