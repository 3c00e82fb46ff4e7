"""A query's clients, configured by the options that begin with `kafka.`.

The driver uses an admin client and a consumer to look up topics and offsets. Each task reads with its own consumer,
which takes less than ten milliseconds to create and is therefore not kept for the next task. No group is joined, and
nothing is committed, because the offsets are in Spark's checkpoint.

Source: `KafkaSourceProvider.kafkaParamsForExecutors` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, ConsumerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import shown
from kafkawire.sdk.spark.client_options import REFUSED_OF_READERS, read_client_options
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX, client_error
from kafkawire.sdk.sync.admin import Admin
from kafkawire.sdk.sync.consumer import Consumer

__all__ = ["ClientSettings"]

#: Default fetch size for a task's partition. Between 1 and 16 MiB, the size does not change a task's CPU time; a larger
#: one keeps distant brokers busy, and a smaller one wastes fewer bytes fetched beyond the end of a task.
FETCH_BYTES: Final = 4 * 1024 * 1024

#: Options that only group members need. The connector accepts them, and so do we.
_OF_MEMBERS: Final = frozenset(
    {
        "group_id",
        "group_instance_id",
        "assignors",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
    }
)


class ClientSettings:
    """The options for a query's clients; they can be pickled and do not reveal secrets.

    Args:
        given: text, numbers or booleans, keyed by their names in Kafka's documentation or in docs/options.md, without
            the prefix.

    Raises:
        ConfigurationError: a name is unknown or contradicts the data source, or a value is refused.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        texts = {name: _text(name, value) for name, value in given.items()}
        values = read_client_options(texts, ConsumerOptions, REFUSED_OF_READERS)
        self._values = {name: value for name, value in values.items() if name not in _OF_MEMBERS}
        try:
            #: The time limit for a call, and thus also for attempts to connect.
            self.api_timeout_ms = ConsumerOptions.read(self._consumer_options().items()).api_timeout_ms
        except ConfigurationError as error:
            raise client_error(error, ConsumerOptions, self._values) from None

    @property
    def fetch_bytes(self) -> int:
        """The maximum size in bytes of one partition's data in a fetch, which only its first batch may exceed."""
        return int(self._consumer_options()["max_partition_fetch_bytes"])

    def consumer(self) -> Consumer[bytes, bytes]:
        """Return a consumer that has no topics and has not been started."""
        return Consumer(**self._consumer_options())

    def admin(self, timeout_ms: int | None = None) -> Admin:
        """Return an admin that has not been started.

        Args:
            timeout_ms: the time limit for a call; None for the limit in the options.
        """
        values = {name: value for name, value in self._values.items() if name in AdminOptions.OPTIONS}
        if timeout_ms is not None:
            values["api_timeout_ms"] = timeout_ms
        return Admin(**values)

    def core(self) -> ClientCore:
        """Return a client for custom requests that has not been started."""
        return ClientCore("reader", ConsumerOptions.read({**self._consumer_options(), "io": "thread"}.items()), None)

    def _consumer_options(self) -> dict[str, Any]:
        own = {"auto_offset_reset": "none", "enable_auto_commit": False, "max_partition_fetch_bytes": FETCH_BYTES}
        return {**own, **self._values}

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(f'{name}={shown(name, value)}' for name, value in self._values.items())})"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ConfigurationError(f"{CLIENT_PREFIX}{name}", value, "expected text, a number, true or false")
    return str(value)
