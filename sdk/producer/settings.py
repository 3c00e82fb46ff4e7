"""Read a producer's options, and decide whether it is idempotent.

Source: Apache Kafka, `ProducerConfig.postProcessAndValidateIdempotenceConfigs`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.sdk.client.options import ProducerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.protocol.tables.enums import Acks

__all__ = ["DRAINED_FRACTION", "IDEMPOTENT_IN_FLIGHT_MAX", "read_producer_options"]

logger = logging.getLogger("kafkawire.producer")

#: Brokers remember the sequence numbers of a producer's last five batches in each partition.
IDEMPOTENT_IN_FLIGHT_MAX = 5

#: `drain` returns once at most this fraction of `buffer_memory` is in use, to avoid alternating between filling and
#: draining with every record.
DRAINED_FRACTION: Final = 0.5


def read_producer_options(servers: str | Iterable[str] | None, given: Mapping[str, object]) -> ProducerOptions:
    """Check the options of a producer.

    Raises:
        ConfigurationError: a name is unknown or given twice, a value is out of range, or two options contradict each
            other.
    """
    options = read_options(ProducerOptions, servers, given)
    conflict = _conflict(options)
    if options.transactional_id is not None:
        if options.enable_idempotence is False:
            raise ConfigurationError(
                "enable_idempotence", False, "transactions require idempotence; omit one of the two options"
            )
        if conflict is not None:
            raise ConfigurationError("transactional_id", options.transactional_id, conflict)
        return ProducerOptions(**{**vars(options), "enable_idempotence": True})
    if conflict is None or options.enable_idempotence is False:
        return options
    if options.enable_idempotence:
        raise ConfigurationError("enable_idempotence", True, conflict)
    logger.info("idempotence is off: %s", conflict)
    return ProducerOptions(**{**vars(options), "enable_idempotence": False})


def _conflict(options: ProducerOptions) -> str | None:
    """Return why a producer with these options cannot be idempotent; None if it can."""
    if options.acks != Acks.ALL:
        return f'idempotence requires acks="all", got {int(options.acks)}'
    if options.max_in_flight > IDEMPOTENT_IN_FLIGHT_MAX:
        return f"idempotence requires max_in_flight of at most {IDEMPOTENT_IN_FLIGHT_MAX}, got {options.max_in_flight}"
    if options.retries == 0:
        return f"idempotence requires retries from 1 to {INT32_MAX}, got 0"
    return None
