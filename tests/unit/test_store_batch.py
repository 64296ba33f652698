"""A batch: once it is settled, whoever waited for it keeps no rows."""

from __future__ import annotations

from engine.store.batch import Batch
from engine.store.encoding import encode_command, encode_fact
from tests.audit_samples import keys, live


def test_a_settled_batch_lets_its_rows_go() -> None:
    life = live(keys())
    batch = Batch(1)
    for record in life.steps[0]:
        if record.position < 0:
            batch.add_command(life.context, record, *encode_command(life.context, record))
        else:
            batch.add_facts([(life.context, encode_fact(life.context, record))])
    rows = batch.size_rows
    assert len(batch.rows()) == rows > 1
    batch.settle()
    assert batch.rows() == []
    assert batch.size_rows == rows
