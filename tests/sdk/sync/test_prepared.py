"""A blocking producer prepares its transactions, and may end them itself."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.sync.prepared import prepare_transaction
from kafkawire.sync import Producer
from kafkawire.testing import Broker


def test_the_same_producer_goes_on() -> None:
    with Broker(ephemeral=True) as broker, Producer(broker.bootstrap, transactional_id="x") as producer:
        deliveries = []
        for ended in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            deliveries.append(producer.send("t", b"v", partition=0))
            prepared = prepare_transaction(producer)
            assert prepared is not None
            assert prepared.transactional_id == "x"
            ended()
        # A marker follows each record.
        assert [each.result().offset for each in deliveries] == [0, 2, 4]
        producer.begin_transaction()
        assert prepare_transaction(producer) is None
        producer.abort_transaction()
        with pytest.raises(LocalProtocolError, match="prepare: no transaction is open"):
            prepare_transaction(producer)
