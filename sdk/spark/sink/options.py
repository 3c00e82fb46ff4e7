"""The sink's options: names as Spark spells them, ignoring case, and values as text.

Options that Spark's Kafka connector also has have the same names and meanings. Options that begin with `kafka.` are
producer options.

Source: `KafkaSourceProvider` in Apache Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.producer.settings import read_producer_options
from kafkawire.sdk.routing.topics import checked_topic
from kafkawire.sdk.spark.client_options import REFUSED_OF_WRITERS, read_client_options
from kafkawire.sdk.spark.option_values import (
    CLIENT_PREFIX,
    OptionTable,
    client_error,
    client_reason,
    parse_flag,
    split_client_options,
)

__all__ = ["TRANSACTION_TIMEOUT_MS", "WriteOptions", "connect_limit_ms", "parse_options"]

logger = logging.getLogger("kafkawire.spark")

#: The brokers' default maximum (transaction.max.timeout.ms), because the transaction of the first task in a micro-batch
#: stays open until the last task has ended.
TRANSACTION_TIMEOUT_MS: Final = 900_000

_TOPIC: Final = "topic"
_ROW_IDS: Final = "dedupeHeaders"
_TRANSACTIONS: Final = "transactionalIdPrefix"

#: Options that Spark itself adds to a query's.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})

#: Options of readers, which the connector ignores in writers.
_OF_READERS: Final = frozenset({"includeheaders"})


class WriteOptions(NamedTuple):
    """The options given by a user.

    Attributes:
        producer: producer options, named as in docs/options.md; may contain secrets.
        topic: the topic of all rows; None if a column contains it.
        has_row_ids: whether a header identifies each row.
        transactional_id_prefix: the prefix of the tasks' transactional ids; None to write without transactions.
    """

    producer: Mapping[str, Any]
    topic: str | None = None
    has_row_ids: bool = False
    transactional_id_prefix: str | None = None


def parse_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse options from text.

    Args:
        given: values by names in any case.

    Raises:
        ConfigurationError: an option is unknown, its value is refused, or two options conflict.
    """
    for name, text in given.items():
        if name.lower() == "path":
            reason = "rows are written to topics, not to a path: use the option topic, or a column `topic`"
            raise ConfigurationError(name, text, reason)
    of_producer, own = split_client_options(given)
    producer = read_client_options(of_producer, ProducerOptions, REFUSED_OF_WRITERS)
    values = _OPTIONS.read({name: text for name, text in own.items() if name.lower() not in _SPARKS | _OF_READERS})
    for name, text in own.items():
        if name.lower() in _OF_READERS:
            logger.warning("%s=%s is for reading, and has no effect here: a column `headers` is written", name, text)
    prefix = values.get(_TRANSACTIONS)
    if prefix is not None:
        producer.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    elif "enable_idempotence" not in producer:
        producer["enable_idempotence"] = _is_idempotent(producer)
    _check_producer(producer, prefix)
    return WriteOptions(producer, values.get(_TOPIC), values.get(_ROW_IDS, False), prefix)


def connect_limit_ms(producer: Mapping[str, Any]) -> int:
    """Return the time limit for connecting, which equals the delivery timeout.

    Args:
        producer: producer options, named as in docs/options.md.
    """
    return int(producer.get("delivery_timeout_ms", ProducerOptions.OPTIONS["delivery_timeout_ms"].default))


def _is_idempotent(producer: Mapping[str, Any]) -> bool:
    """Return whether a producer is idempotent by default, that is, if the option is not set.

    As in Java, it is idempotent unless other options rule that out. The option is then set explicitly, because a
    cluster that does not support idempotence must cause an error.
    """
    try:
        read_producer_options(None, {**producer, "enable_idempotence": True})
    except ConfigurationError as error:
        if error.option == "enable_idempotence":
            logger.warning("idempotence is off, and records may be stored twice: %s", error.reason)
            return False
    return True


def _check_producer(producer: Mapping[str, Any], prefix: str | None) -> None:
    """Have the producer check its options while the query is being planned, rather than in each task."""
    more = {} if prefix is None else {"transactional_id": prefix}
    try:
        read_producer_options(None, {**producer, **more})
    except ConfigurationError as error:
        if error.option in more:
            raise ConfigurationError(_TRANSACTIONS, prefix, client_reason(error.reason, ProducerOptions)) from None
        # A query sets the prefix of transactional ids, not an id.
        error.reason = error.reason.replace("transactional_id", _TRANSACTIONS)
        raise client_error(error, ProducerOptions, producer) from None


def _topic(option: str, text: str) -> str:
    try:
        return checked_topic(text.strip())
    except LocalProtocolError as error:
        raise ConfigurationError(option, text, str(error)) from None


def _prefix(option: str, text: str) -> str:
    if not text:
        raise ConfigurationError(option, text, "expected text; leave it out to write without transactions")
    return text


_OPTIONS: Final = OptionTable(
    {_TOPIC: _topic, _ROW_IDS: parse_flag, _TRANSACTIONS: _prefix},
    clients=ProducerOptions,
    advice=dict.fromkeys(("topics", "subscribe"), "use topic to give the topic for all rows"),
    hint=f"; producer options begin with {CLIENT_PREFIX}, as in {CLIENT_PREFIX}linger.ms",
)
