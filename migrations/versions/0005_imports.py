"""What deployed decision files import, pinned to each version."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Straight to the driver: these files hold many statements, and text() would read their colons as parameters.
    op.get_bind().connection.cursor().execute(Path(__file__).with_name("0005_imports.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("the audit only grows; restore a backup instead")
