"""The options of the sink: names as Spark writes them, in any case, and values as text.

What Spark's Kafka connector has, too, has its name and means the same. `kafka.` and a dotted name is an option of the
producer.

Source: `KafkaSourceProvider` in Apache Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkawire.sdk.client.topics import checked_topic
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.producer.settings import read_producer_options

__all__ = ["TRANSACTION_TIMEOUT_MS", "WriteOptions", "parse_options"]

#: As long as brokers allow by default (transaction.max.timeout.ms): the transaction of the first task of a micro-batch
#: stays open until the last one has ended.
TRANSACTION_TIMEOUT_MS: Final = 900_000

_PRODUCER: Final = "kafka."
_TOPIC: Final = "topic"
_ROW_IDS: Final = "dedupeHeaders"
_TRANSACTIONS: Final = "transactionalIdPrefix"
_OPTIONS: Final = {name.lower(): name for name in (_TOPIC, _ROW_IDS, _TRANSACTIONS)}

#: What Spark itself has among the options of a query.
_SPARKS: Final = frozenset({"checkpointlocation", "path", "queryname"})

#: Options of the producer that are not the user's to choose, and why.
_REFUSED: Final = {
    "kafka.key.serializer": "keys are binary, or text in UTF-8: cast the column `key`",
    "kafka.value.serializer": "values are binary, or text in UTF-8: cast the column `value`",
    "kafka.transactional.id": f"each task has one of its own: use {_TRANSACTIONS}",
    "kafka.transactional_id": f"each task has one of its own: use {_TRANSACTIONS}",
    "kafka.io": "a task has no event loop: leave it out",
}


class WriteOptions(NamedTuple):
    """What a user asks for.

    Attributes:
        producer: options of the producer, by dotted name; may hold secrets.
        topic: of all rows; None if a column says it.
        has_row_ids: whether a header tells each row from all others.
        transactional_id_prefix: of the transactional ids of the tasks; None to write without transactions.
    """

    producer: Mapping[str, str]
    topic: str | None = None
    has_row_ids: bool = False
    transactional_id_prefix: str | None = None


def parse_options(given: Mapping[str, str]) -> WriteOptions:
    """Return options from text.

    Args:
        given: values by names in any case.

    Raises:
        ConfigurationError: an option is unknown, its value is refused, or two contradict each other.
    """
    producer: dict[str, str] = {}
    values: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in _REFUSED:
            raise ConfigurationError(name, text, _REFUSED[lower])
        if lower.startswith(_PRODUCER):
            producer[lower.removeprefix(_PRODUCER)] = text
        elif lower in _OPTIONS:
            values[_OPTIONS[lower]] = text
        elif lower not in _SPARKS:
            raise ConfigurationError(name, text, _unknown(lower))
    prefix = values.get(_TRANSACTIONS)
    if prefix == "":
        raise ConfigurationError(_TRANSACTIONS, prefix, "expected a text; leave it out to write without transactions")
    if prefix is not None:
        producer.setdefault("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
    elif not {"enable.idempotence", "enable_idempotence"} & producer.keys():
        producer["enable.idempotence"] = "true"
    _check_producer(producer, prefix)
    return WriteOptions(producer, _topic(values.get(_TOPIC)), _flag(_ROW_IDS, values.get(_ROW_IDS)), prefix)


def _check_producer(producer: Mapping[str, str], prefix: str | None) -> None:
    """Have the producer check its options while the query is planned, and not in each task."""
    more = {} if prefix is None else {"transactional_id": prefix}
    if not {"bootstrap.servers", "bootstrap_servers"} & producer.keys():
        raise ConfigurationError("kafka.bootstrap.servers", None, "a value is needed, there is no default")
    read_producer_options(None, {**producer, **more})


def _topic(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return checked_topic(text.strip())
    except LocalProtocolError as error:
        raise ConfigurationError(_TOPIC, text, str(error)) from None


def _flag(option: str, text: str | None) -> bool:
    if text is not None and text.lower() not in ("true", "false"):
        raise ConfigurationError(option, text, "expected true or false")
    return text is not None and text.lower() == "true"


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _OPTIONS, n=1)
    if near:
        return f"no such option; did you mean {_OPTIONS[near[0]]}?"
    return "no such option; those of the producer begin with kafka., as in kafka.linger.ms"
