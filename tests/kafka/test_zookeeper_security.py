"""A ZooKeeper server with TLS and SASL accepts our sessions, and our broker protects the same nodes as Apache Kafka's.

Method: use one ZooKeeper server that has both, and maps certificates and logins to identities; run brokers of both
kinds, each below its own chroot, with `zookeeper.set.acl`, and compare the access control lists of both trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.errors import ConfigurationError, RequestTimedOut
from kafkawire.sdk.registry.acls import Permission
from kafkawire.sdk.registry.registry import Children, Create, Created, GetAcl, GetChildren, NodeAcl
from kafkawire.sdk.registry.security_options import ZooKeeperSecurityOptions
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry
from kafkawire.sdk.registry.zookeeper_security import OPEN_CONNECTION, ZooKeeperSecurity
from kafkawire.sync import Admin
from tests.certificates import Certificates
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.sdk.registry.owner import Owner

#: The broker's user, and another one.
USERS = {"kafka": "secret", "other": "word"}


@pytest.fixture(scope="module")
def zookeeper(certificates: Certificates) -> Iterator[ZooKeeper]:
    with ZooKeeper(USERS, certificates) as server:
        yield server


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A broker's login module file."""
    path = tmp_path / "jaas.conf"
    path.write_text(
        "Client { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        '  username="kafka" password="secret"; };\n'
    )
    return path


def tls_options(certificates: Certificates, folder: Path) -> dict[str, Any]:
    """Return the options for a client with a certificate."""
    authority = folder / "authority.pem"
    authority.write_text(certificates.authority.read_text())
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(authority),
        "zookeeper.ssl.keystore.location": str(certificates.client),
    }


def registry_of(owner: Owner, connect: str, security: ZooKeeperSecurity = OPEN_CONNECTION) -> ZooKeeperRegistry:
    registry = ZooKeeperRegistry(connect, owner.post, session_timeout_ms=10_000, security=security)
    registry.start()
    return registry


def lists_below(owner: Owner, registry: ZooKeeperRegistry, path: str = "/") -> dict[str, frozenset[tuple[int, str]]]:
    """Return each node's access control list, as permissions and schemes."""
    found = owner.ask(registry, GetAcl(path))
    assert isinstance(found, NodeAcl), found
    lists = {path: frozenset((int(each.permissions), f"{each.scheme}:{each.id}") for each in found.acl)}
    children = owner.ask(registry, GetChildren(path))
    assert isinstance(children, Children)
    for name in children.names:
        lists |= lists_below(owner, registry, f"{path.rstrip('/')}/{name}")
    return lists


def test_a_session_with_tls(zookeeper: ZooKeeper, certificates: Certificates, tmp_path: Path) -> None:
    owner = Owner()
    options = ZooKeeperSecurityOptions.read(tls_options(certificates, tmp_path).items())
    registry = registry_of(owner, f"localhost:{zookeeper.secure_port}/tls", options.zookeeper_security())
    with ExitStack() as stack:
        stack.callback(registry.close, 10_000)
        assert owner.ask(registry, Create("/a")) == Created("/a")
        # The response must be larger than a TLS record.
        owner.ask_all(registry, *(Create(f"/a/{'x' * 200}{number}") for number in range(300)))
        children = owner.ask(registry, GetChildren("/a"))
        assert isinstance(children, Children)
        assert len(children.names) == 300


@pytest.mark.parametrize("mistake", ["no certificate", "another authority"])
def test_a_broker_and_a_zookeeper_that_do_not_trust_each_other(
    zookeeper: ZooKeeper, certificates: Certificates, tmp_path: Path, mistake: str
) -> None:
    options = tls_options(certificates, tmp_path)
    if mistake == "no certificate":
        del options["zookeeper.ssl.keystore.location"]
    else:
        options["zookeeper.ssl.truststore.location"] = str(certificates.stranger)
    broker = BackgroundBroker(
        None,
        zookeeper_connect=f"localhost:{zookeeper.secure_port}/mistaken",
        zookeeper_connection_timeout_ms=3_000,
        **options,
    )
    with pytest.raises(RequestTimedOut, match="no session within 3000 ms"):
        broker.start()


def test_lists_are_those_of_apache_kafka(zookeeper: ZooKeeper, login: Path) -> None:
    theirs, ours = f"{zookeeper.address}/theirs", f"{zookeeper.address}/ours"
    settings = {"zookeeper.set.acl": "true"}
    with ZooKeeperKafka(1, theirs, settings, login) as kafka:
        _make_topics(kafka.bootstrap)
        broker = BackgroundBroker(
            None,
            zookeeper_connect=ours,
            broker_id=1,
            zookeeper_set_acl=True,
            java_security_auth_login_config=str(login),
            default_replication_factor=1,
        )
        with broker:
            _make_topics(broker.bootstrap)
            owner = Owner()
            options = ZooKeeperSecurityOptions.read({"java.security.auth.login.config": str(login)}.items())
            both = [registry_of(owner, connect, options.zookeeper_security()) for connect in (theirs, ours)]
            lists = [lists_below(owner, registry) for registry in both]
            for registry in both:
                registry.close(10_000)
    their_lists, our_lists = lists
    assert {"/brokers/ids/1", "/brokers/topics/t/partitions/0/state", "/config/users"} <= our_lists.keys()
    assert our_lists == their_lists
    secret = {(int(Permission.ALL), "sasl:kafka")}
    assert our_lists["/config/users"] == secret
    assert our_lists["/"] == our_lists["/brokers"] == secret | {(int(Permission.READ), "world:anyone")}


def _make_topics(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics(NewTopic("t", partitions=1, replication_factor=1, configs={"retention.ms": "100000"}))


def test_a_broker_without_an_identity_cannot_protect_nodes(zookeeper: ZooKeeper) -> None:
    with pytest.raises(ConfigurationError, match=r"^zookeeper.set.acl=True: the broker has no identity in ZooKeeper"):
        BackgroundBroker(None, zookeeper_connect=zookeeper.address, zookeeper_set_acl=True)
