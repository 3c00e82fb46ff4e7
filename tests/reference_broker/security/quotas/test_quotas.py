"""The quotas follow the limits in the store, and ignore those that cannot be read.

Method: change a store in memory, and look at what applies.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity
from kafkawire.reference_broker.security.quotas.client_quota import Client
from kafkawire.reference_broker.security.quotas.quotas import Quotas
from kafkawire.reference_broker.security.quotas.rates import Window
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

WINDOW = Window(11, 1_000)
ALICE = ConfigEntity("alice")
ALICES_APP = Client("alice", "app")


def quotas_of(store: KeptEntityConfigs) -> Quotas:
    return Quotas(store, WINDOW, WINDOW)


def limits_of(quotas: Quotas, client: Client = ALICES_APP) -> list[float | None]:
    """Return the limits of a client, for each kind of quota."""
    kinds = (quotas.produce.limits, quotas.fetch.limits, quotas.request.limits, quotas.mutations.limits)
    return [kind.limit_of(kind.owner_of(client)) for kind in kinds]


def test_limits_that_are_there_and_that_change() -> None:
    store = KeptEntityConfigs()
    store.set(ALICE, producer_byte_rate=1.0, request_percentage=5.5, **{"SCRAM-SHA-256": "salt=,"})
    quotas = quotas_of(store)
    assert limits_of(quotas) == [1.0, None, 5.5, None]
    store.set(ConfigEntity("alice", DEFAULT), consumer_byte_rate=3)
    store.set(ConfigEntity(client_id="app"), controller_mutation_rate=0.5, producer_byte_rate=7)
    assert limits_of(quotas) == [1.0, 3.0, 5.5, 0.5]
    store.set(ALICE)
    assert limits_of(quotas) == [7.0, 3.0, None, 0.5]
    assert not quotas.request.limits.is_enabled


def test_addresses() -> None:
    store = KeptEntityConfigs()
    quotas = quotas_of(store)
    store.set(ConfigEntity(ip="10.0.0.1"), connection_creation_rate=1)
    assert [quotas.connections.refusal_ms("A", "10.0.0.1", 0) > 0 for _ in range(11)] == [False] * 10 + [True]
    store.set(ConfigEntity(ip="10.0.0.1"))
    assert quotas.connections.refusal_ms("A", "10.0.0.1", 0) == 0


def test_the_request_quota_throttles_for_a_sample_at_most() -> None:
    store = KeptEntityConfigs()
    quotas = quotas_of(store)
    store.set(ALICE, request_percentage=1, producer_byte_rate=1)
    assert quotas.request.record(Client("alice", "app"), 1e6, 0) == 1_000
    assert quotas.produce.record(Client("alice", "app"), 1e6, 0) > 1_000


def test_changes_by_the_controller_have_a_window_of_their_own() -> None:
    store = KeptEntityConfigs()
    quotas = Quotas(store, WINDOW, Window(2, 1_000))
    store.set(ALICE, controller_mutation_rate=10, producer_byte_rate=10)
    permits = quotas.mutations.permits(ALICES_APP, lambda: 0, is_strict=False)
    permits.take(20)
    assert permits.throttle_ms(0) == 0
    permits.take(1)
    assert permits.throttle_ms(0) == 100
    assert quotas.produce.most_at_once(ALICES_APP, 0) == 100


@pytest.mark.parametrize(
    ("entity", "configs", "text"),
    [
        (ALICE, {"producer_byte_rate": "fast"}, "producer_byte_rate of users/alice has no effect, since 'fast' is not"),
        (ALICE, {"producer_byte_rate": "NaN"}, "producer_byte_rate of users/alice has no effect, since 'NaN' is not"),
        (ConfigEntity(ip="host"), {"connection_creation_rate": "5"}, "quota of ips/host has no effect"),
    ],
)
def test_limits_that_another_program_has_written_wrongly(
    caplog: pytest.LogCaptureFixture, entity: ConfigEntity, configs: dict[str, str], text: str
) -> None:
    store = KeptEntityConfigs(is_registry=True)
    quotas = quotas_of(store)
    store.set(entity, **configs)
    assert limits_of(quotas) == [None] * 4
    assert text in caplog.text
