"""Fixtures: a broker, and a group for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.commands.groups import offset_migration
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity
from kafkawire.sync import Admin
from kafkawire.testing import Broker
from tests.commands.groups.migrating import Scene
from tests.sdk.consumer.zookeeper_server import Session


@pytest.fixture(scope="module")
def node() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=2) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics("t")
        yield broker


@pytest.fixture
def scene(
    node: Broker, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scene:
    found = Scene(node, f"g-{request.node.name.partition('[')[0]}", capsys)

    def session(connect: str, post: Post, *, security: ZooKeeperSecurity) -> Session:
        assert connect == "z:2181/kafka"
        found.server.securities.append(security)
        found.server.sessions.append(Session(found.server, post, 1_000))
        return found.server.sessions[-1]

    monkeypatch.setattr(offset_migration, "ZooKeeperRegistry", session)
    return found
