"""Rights that are given and revoked while clients are connected take effect at once, and survive a restart.

Method: run a broker with an authorizer, whose file of ACLs lets the client manage ACLs and create topics; use this
project's own clients over TCP. Every wait has a time limit.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkawire import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    BrokerError,
    Consumer,
    ErrorCode,
    PatternType,
    Producer,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    sync,
)
from kafkawire.testing import Broker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

#: The client has not logged in.
ME = "User:ANONYMOUS"

FILE = "".join(
    f"cluster/literal/kafka-cluster/User\\:ANONYMOUS/*/{operation}=allow\n"
    for operation in ("alter", "create", "describe")
)

TIMEOUT_SECONDS = 60

#: Of producers, which ask for a topic before they send to it.
QUICK: dict[str, Any] = {"api_timeout_ms": 5_000}


def allow(operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC) -> AclBinding:
    entry = AccessControlEntry(ME, "*", operation, AclPermissionType.ALLOW)
    return AclBinding(ResourcePattern(kind, name), entry)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    data = tmp_path / "data"
    data.mkdir()
    (data / "acls").write_text(FILE)
    return Broker(data, authorizer_class_name=AUTHORIZER)


async def _scene(broker: Broker) -> None:
    write, read, read_group = (
        allow(AclOperation.WRITE, "t"),
        allow(AclOperation.READ, "t"),
        allow(AclOperation.READ, "g", ResourceType.GROUP),
    )
    of_topic = AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "t", PatternType.LITERAL))
    async with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap, **QUICK) as producer:
        await admin.create_topics("t")
        assert len(await admin.describe_acls()) == 3
        with pytest.raises(BrokerError) as caught:
            await producer.send("t", b"0")
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (await admin.create_acls(write, read, read_group)).all()
        await producer.send("t", b"1")
        async with Consumer(broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            await consumer.subscribe("t")
            assert (await anext(aiter(consumer))).value == b"1"
            (deleted,) = (await admin.delete_acls(of_topic)).all().values()
            assert set(deleted.all()) == {write, read}
            with pytest.raises(BrokerError) as caught:
                await anext(aiter(consumer))
            assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(BrokerError) as caught:
            await producer.send("t", b"2")
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_rights_come_and_go_while_clients_are_connected(broker: Broker) -> None:
    with broker:
        asyncio.run(asyncio.wait_for(_scene(broker), TIMEOUT_SECONDS))
        with sync.Admin(broker.bootstrap) as admin:
            names = {each.pattern.name for each in admin.describe_acls()}
            assert names == {"kafka-cluster", "g"}
            broker.stop()
            broker.start()
            assert {each.pattern.name for each in admin.describe_acls()} == names
            (of_group,) = admin.delete_acls(AclBindingFilter(ResourcePatternFilter(ResourceType.GROUP))).all().values()
            assert len(of_group.values) == 1
            admin.create_acls(allow(AclOperation.READ, "u")).all()


def test_a_broker_without_an_authorizer() -> None:
    with Broker(ephemeral=True) as broker, sync.Admin(broker.bootstrap) as admin:
        with pytest.raises(BrokerError, match="SECURITY_DISABLED: ACLs: No Authorizer is configured on the broker"):
            admin.describe_acls()
        created = admin.create_acls(allow(AclOperation.READ, "t"))
        assert [str(error) for error in created.errors.values()] == [
            f"SECURITY_DISABLED: ALLOW {ME} READ on topic t: No Authorizer is configured."
        ]
