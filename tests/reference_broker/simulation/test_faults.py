"""Each fault has an effect, and a cluster survives it.

Method: run a cluster with one fault at a time; the run's trace shows what has happened.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.plan import Plan, Step
from kafkawire.reference_broker.simulation.simulation import simulate

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step(800, "kill", (1, 500)), "broker 1 is killed"),
        (Step(800, "cut_power", (2, 300)), "broker 2 loses power"),
        (Step(800, "cut_power_in_work", (3, 20, 300)), "broker 3 loses power"),
        (Step(800, "fail_disk", (3, 20)), "the disk of broker 3 fails"),
        (Step(800, "stop", (1, 300)), "broker 1 has stopped"),
        (Step(800, "pause", (2, 1_200)), "broker 2 is paused for 1200 ms"),
        (Step(800, "cut", ("b1", "b2", 900)), "the network is cut between b1 and b2"),
        (Step(800, "cut", ("b1", "b1", 900)), "the network is cut between b1 and b2, b3"),
        (Step(800, "cut", ("b3", "clients", 900)), "the network is cut between b3 and admin, p0"),
        (Step(800, "cut_one_way", ("b1", "b2", 900)), "the network is cut from b1 to b2"),
        (Step(800, "break_connections", (1,)), "connections of broker 1 break"),
        (Step(800, "disconnect", (1, 1_000)), "broker 1 loses the registry"),
        (Step(800, "expire", (2,)), "the session of broker 2 expires"),
        (Step(800, "registry_outage", (900,)), "the registry is down"),
        (Step(10, "registry_fault", (5, "LOSE_RESPONSE")), "LOSE_RESPONSE of"),
        (Step(800, "depose"), "the controller is deposed"),
        (Step(800, "at_request", ("HEARTBEAT", 1, "receiver", "replace", 400)), "the controller is deposed"),
        (Step(10, "replace_controller", (3, 300)), "is paused in its work for 300 ms"),
        (Step(800, "at_request", ("HEARTBEAT", 1, "receiver", "expire", 400)), "the session of broker"),
        (Step(800, "at_request", ("HEARTBEAT", 1, "receiver", "delay", 900)), "a request from m"),
        (Step(800, "fill_disk", (2, 2_000, 900)), "the disk of broker 2 has room for 2000 bytes"),
        (Step(800, "jump_clock", (1, 3_600_000)), "the clock of broker 1 jumps by 3600000 ms"),
        (Step(800, "jump_clock", (3, -3_600_000)), "the clock of broker 3 jumps by -3600000 ms"),
        (Step(800, "kill_member"), "member m3 starts"),
        (Step(800, "kill_transformer", (0,)), "transformer x2"),
        (Step(800, "kill_transformer", (700,)), "transformer x2"),
        (Step(800, "pause_client", (1, 700)), "is paused for 700 ms"),
    ],
    ids=str,
)
def test_a_cluster_survives(step: Step, text: str) -> None:
    outcome = simulate(Plan(11, is_synced=True, steps=(step,)))
    assert outcome.violation == ""
    assert any(text in line for line in outcome.trace), outcome.trace
