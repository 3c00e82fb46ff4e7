"""All quotas of a broker, which follow the limits in the store.

    EntityConfigStore ──changes──▶ Quotas ──▶ produce, fetch, request, mutations, connections

Source: `QuotaFactory.QuotaManagers`, `ClientQuotaMetadataManager`, `QuotaConfigHandler` in Apache Kafka.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from kafkawire.reference_broker.config.config_values import parse_decimal, trimmed
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntityConfigStore, EntityName
from kafkawire.reference_broker.security.quotas.client_quota import RateQuota
from kafkawire.reference_broker.security.quotas.connection_rates import ConnectionRates
from kafkawire.reference_broker.security.quotas.mutations import MutationQuota
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.sdk.protocol.tables.enums import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

__all__ = ["Quotas"]

_log = logging.getLogger("kafkawire.broker")


class Quotas:
    """The quotas of a broker.

    Args:
        store: has the limits.
        window: the time over which rates are measured (`quota.window.num`, `quota.window.size.seconds`).
        mutation_window: the same for changes by the controller (`controller.quota.window.num`, …).

    Attributes:
        produce: bytes per second in Produce requests.
        fetch: bytes per second in Fetch responses.
        request: the time that the broker spends on requests, in percent of one processor.
        mutations: partitions created and deleted per second.
        connections: new connections per second.
        is_registry: whether the limits are kept in a cluster's registry.
    """

    def __init__(self, store: EntityConfigStore, window: Window, mutation_window: Window) -> None:
        self._store = store
        self.is_registry = store.is_registry
        self.produce = RateQuota(window)
        self.fetch = RateQuota(window)
        self.request = RateQuota(window, throttle_ms_max=window.sample_ms)
        self.mutations = MutationQuota(mutation_window)
        self.connections = ConnectionRates(window)
        store.listen(self._changed)
        for entity in store.all():
            self._changed(entity)

    def _changed(self, entity: ConfigEntity) -> None:
        if entity.ip is not None:
            limit = self._limit(entity, CONNECTION_CREATION_RATE)
            try:
                self.connections.set_ip_limit(entity.ip, limit)
            except ValueError:
                _log.error("the quota of %s has no effect, since it is not an address", entity.path)
            return
        quotas: tuple[tuple[str, Callable[[EntityName, EntityName, float | None], None]], ...] = (
            (PRODUCER_BYTE_RATE, self.produce.limits.set_limit),
            (CONSUMER_BYTE_RATE, self.fetch.limits.set_limit),
            (REQUEST_PERCENTAGE, self.request.limits.set_limit),
            (CONTROLLER_MUTATION_RATE, self.mutations.limits.set_limit),
        )
        for key, set_limit in quotas:
            set_limit(entity.user, entity.client_id, self._limit(entity, key))

    def _limit(self, entity: ConfigEntity, key: str) -> float | None:
        text = self._store.of(entity).get(key)
        if text is None:
            return None
        number = parse_decimal(trimmed(text))
        if number is None or math.isnan(number):
            _log.error("the quota %s of %s has no effect, since %r is not a number", key, entity.path, text)
            return None
        return number
