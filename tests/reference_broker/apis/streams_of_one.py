"""A broker that serves streams groups at once, and an application that counts words, for tests of the APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Beat
from tests.reference_broker.broker_bench import BrokerBench

__all__ = ["JOIN", "Info", "Sub", "streams_bench", "topology"]

Info = Beat.TopicInfo
Sub = Beat.Subtopology

#: The fields of a joining member, except for its topology.
JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "process_id": "p"}
JOIN |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def streams_bench(tmp_path: Path) -> BrokerBench:
    """Return a broker that assigns tasks immediately, with the topic `t`."""
    options = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
    bench = BrokerBench(tmp_path / "data", **options)
    bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 3, 1)]), 7)
    bench.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    bench.elect()
    return bench


def topology(*subtopologies: Sub, replication_factor: int = 0) -> Beat.Topology:
    """Return the topology of an application that counts words."""
    configs = [Beat.KeyValue("cleanup.policy", "compact")]
    changelog = Info("app-c", 0, replication_factor, configs)
    counting = (
        Sub("0", ["t"], [], [], ["app-r"], [], []),
        Sub("1", [], [], [changelog], [], [Info("app-r", 0, 0, [])], []),
    )
    return Beat.Topology(0, subtopologies or counting)
