"""ListConfigResources lists topics and brokers, and the groups and subscriptions that have configurations.

Method: ask a broker without sockets that has one resource of each kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest
from kafkawire.sdk.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

KINDS = {
    ConfigResourceType.GROUP: "g",
    ConfigResourceType.CLIENT_METRICS: "m",
    ConfigResourceType.BROKER_LOGGER: "1",
    ConfigResourceType.BROKER: "1",
    ConfigResourceType.TOPIC: "t",
}


@pytest.fixture
def bench(tmp_path: Path) -> BrokerBench:
    bench = BrokerBench(tmp_path / "data")
    bench.create("t")
    for kind, config in (
        (ConfigResourceType.GROUP, ("consumer.session.timeout.ms", "50000")),
        (ConfigResourceType.CLIENT_METRICS, ("interval.ms", "1000")),
        (ConfigResourceType.BROKER, ("log.retention.ms", "1000")),
    ):
        resource = AlterConfigsRequest.AlterConfigsResource(
            kind, KINDS[kind], [AlterConfigsRequest.AlterableConfig(*config)]
        )
        assert not bench.ask(AlterConfigsRequest([resource])).responses[0].error_code
    return bench


def listed(bench: BrokerBench, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = bench.ask(ListConfigResourcesRequest(kinds), version)
    assert response.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


@pytest.mark.parametrize(
    "kinds", [(), *((kind,) for kind in KINDS), (ConfigResourceType.TOPIC, ConfigResourceType.GROUP), tuple(KINDS) * 2]
)
def test_kinds(bench: BrokerBench, kinds: tuple[ConfigResourceType, ...]) -> None:
    assert listed(bench, *kinds) == [(kind, name) for kind, name in KINDS.items() if kind in kinds or not kinds]


def test_the_first_version_lists_subscriptions_only(bench: BrokerBench) -> None:
    assert listed(bench, version=0) == [(ConfigResourceType.CLIENT_METRICS, "m")]


@pytest.mark.parametrize("kind", [0, 99, -1])
def test_a_kind_that_nobody_knows(bench: BrokerBench, kind: int) -> None:
    response = bench.ask(ListConfigResourcesRequest([ConfigResourceType.TOPIC, kind]), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())
