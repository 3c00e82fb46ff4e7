"""The blocking admin manages a cluster from any thread.

Method: use the in-process reference broker.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire import ConfigResourceType, NewTopic, TopicPartition
from kafkawire.errors import BrokerError, Closed, LocalProtocolError
from kafkawire.sync import Admin
from kafkawire.testing import Broker


def test_topics_groups_and_configurations() -> None:
    with Broker() as broker, Admin(broker.bootstrap) as admin:
        place = TopicPartition("orders", 1)
        assert list(admin.create_topics(NewTopic("orders", 2))) == ["orders"]
        assert list(admin.list_topics()) == ["orders"]
        assert len(admin.describe_topics("orders")["orders"].partitions) == 2
        assert len(admin.describe_cluster().brokers) == 1
        assert admin.list_groups() == []
        assert admin.list_offsets({place: -1})[place].offset == 0
        assert admin.list_group_offsets("nobody") == {}
        assert "retention.ms" in admin.describe_configs(ConfigResourceType.TOPIC, "orders")
        with pytest.raises(BrokerError, match="nobody"):
            admin.describe_groups("nobody")
        admin.delete_topics("orders")
        assert admin.list_topics() == {}
        with pytest.raises(LocalProtocolError, match="already started"):
            admin.start()
    with pytest.raises(Closed):
        admin.list_topics()


def test_inside_a_running_loop() -> None:
    """This happens in a notebook, where the call blocks the running loop."""

    async def run() -> list[str]:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics("t")
            return list(admin.list_topics())

    with Broker() as broker:
        assert asyncio.run(run()) == ["t"]
