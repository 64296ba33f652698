"""What happens while a step waits: failed tries, events, changes from outside; and which item a step ran for."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Straight to the driver: these files hold many statements, and text() would read their colons as parameters.
    op.get_bind().connection.cursor().execute(Path(__file__).with_name("0004_facts.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("the audit only grows; restore a backup instead")
