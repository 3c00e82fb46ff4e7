"""All configuration stores are interchangeable.

Method: check the store of a single broker against the protocol that the handlers use.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS, ConfigStore, revision_of
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from tests.reference_broker.broker_bench import BrokerBench

GROUP = ConfigResourceType.GROUP


def test_a_broker_alone_has_a_store(bench: BrokerBench) -> None:
    store: ConfigStore = bench.core.dynamic_configs
    assert isinstance(store, ConfigStore)
    assert (store.of(GROUP, "g"), store.resources(GROUP)) == (NO_CONFIGS, {})


def test_a_listener_finds_the_configurations_changed(bench: BrokerBench) -> None:
    store, told = bench.core.dynamic_configs, list[object]()
    store.on_change = lambda kind, name: told.append((kind, name, store.of(kind, name)))
    store.change(GROUP, "g", lambda before: {**before, "a": "1"}, told.append)
    assert told == [(GROUP, "g", {"a": "1"}), None]


def test_a_revision() -> None:
    revise = revision_of({"a": "2", "b": None, "c": None, "d": "4"})
    assert revise({"a": "1", "b": "1", "e": "1"}) == {"a": "2", "d": "4", "e": "1"}
