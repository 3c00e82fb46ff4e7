"""The properties of a broker in a cluster on this machine, keyed by Kafka's names.

Other properties keep Kafka's defaults. Every topic has three replicas, or one on each broker of a smaller cluster.
Sessions are shorter, so the cluster notices a killed member sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["broker_properties", "checked_options"]

#: Kafka's defaults for internal topics.
_REPLICATION_FACTOR: Final = 3
_MIN_IN_SYNC: Final = 2

#: A third of Kafka's default.
_SESSION_TIMEOUT_MS: Final = 6_000

#: Brokers start together with ZooKeeper, which takes a second, or many times that on a loaded machine.
_CONNECTION_TIMEOUT_MS: Final = 30_000

#: A tenth of Kafka's default. When all brokers stop together, the last ones find no other leader and retry in vain.
_SHUTDOWN_BACKOFF_MS: Final = 500

#: A tenth of Kafka's default. A follower that learns of a new topic before the leader does is refused once, and a
#: longer backoff would delay the first acknowledgement with acks=all.
_FETCH_BACKOFF_MS: Final = 100

#: Properties that differ between the brokers of a cluster, or that concern its files.
_OWN: Final = frozenset(
    {
        "broker.id",
        "node.id",
        "zookeeper.connect",
        "listeners",
        "advertised.listeners",
        "log.dirs",
        "log.dir",
        "process.roles",
    }
)


def checked_options(options: Mapping[str, str], *, is_for_us: bool = True) -> dict[str, str]:
    """Return options for all brokers of a cluster.

    Args:
        options: the options, keyed by Kafka's names.
        is_for_us: whether the brokers are kafkawire's, which would refuse wrong options only when they start.

    Raises:
        ConfigurationError: the cluster itself sets one of them, or its brokers would refuse one.
    """
    for name, value in options.items():
        if name in _OWN:
            raise ConfigurationError(name, value, "must not be given, because the cluster sets it for each broker")
    if options and is_for_us:
        _check(broker_properties(1, "127.0.0.1:9092", "127.0.0.1:2181", Path("data"), 1, options))
    return dict(options)


def _check(properties: Mapping[str, str]) -> None:
    """Check that a broker accepts its properties; see `checked_options`."""
    # Imported here, since most clusters have no options, and their own processes run the brokers.
    from kafkawire.reference_broker.config.config_file import config_of
    from kafkawire.reference_broker.server import Broker

    config = config_of(properties_content(properties).decode())
    try:
        Broker(config.data_dir, "", 0, handlers=(), wall_ms=now_ms, registry=None, **config.options)
    except ConfigurationError as error:
        raise config.placed(error) from None


def broker_properties(
    broker_id: int, address: str, zookeeper_connect: str, data: Path, brokers: int, options: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the properties of a broker.

    Args:
        broker_id: its id.
        address: where it listens, as `host:port`.
        zookeeper_connect: the address of the cluster's ZooKeeper.
        data: the folder for its files.
        brokers: the number of brokers in the cluster.
        options: options for all brokers; see `checked_options`.
    """
    replicas = str(min(_REPLICATION_FACTOR, brokers))
    return {
        "zookeeper.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
        "zookeeper.connection.timeout.ms": str(_CONNECTION_TIMEOUT_MS),
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(_MIN_IN_SYNC, brokers)),
        "controlled.shutdown.retry.backoff.ms": str(_SHUTDOWN_BACKOFF_MS),
        "replica.fetch.backoff.ms": str(_FETCH_BACKOFF_MS),
        **options,
        "broker.id": str(broker_id),
        "zookeeper.connect": zookeeper_connect,
        "listeners": f"PLAINTEXT://{address}",
        "log.dirs": str(data),
    }
