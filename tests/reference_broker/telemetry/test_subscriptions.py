"""A client is asked for the metrics of all subscriptions that match it, and no expression takes long to match.

Method: check tables of subscriptions and clients; `tests/kafka/test_small_admin_apis.py` compares the ids with Kafka's.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.patterns.topic_pattern import SLICE_STEPS
from kafkawire.reference_broker.telemetry.subscriptions import Subscriptions, Wanted, subscription_id
from kafkawire.sdk.protocol.uuids import ZERO_UUID

CLIENT = {
    "client_id": "shop-7",
    "client_instance_id": "AQEBAQEBAQEBAQEBAQEBAQ",
    "client_software_name": "librdkafka",
    "client_software_version": "2.5.3",
    "client_source_address": "10.0.0.7",
    "client_source_port": None,
}


def wanted(subscriptions: Subscriptions, **attributes: str | None) -> Wanted:
    work = subscriptions.wanted({**CLIENT, **attributes})
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Wanted = end.value
            return found


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("", True),
        ("client_id=shop-7", True),
        ("client_id=shop-.*", True),
        ("client_id=shop", False),
        ("client_id=hop-7", False),
        ("client_id=SHOP-7", False),
        ("client_id=(?i)SHOP-7", True),
        (" client_id = shop-\\d , client_software_name = librdkafka|Java ", True),
        ("client_id=shop-7,client_software_name=Java", False),
        ("client_id=other,client_id=shop-7", True),
        ("client_software_version=2\\.5\\..*", True),
        ("client_source_address=10\\.0\\..*", True),
        ("client_source_port=.*", False),
        ("client_instance_id=AQ.*", True),
    ],
)
def test_matches(match: str, is_matched: bool) -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m", "match": match}})
    assert wanted(subscriptions).metrics == (("m",) if is_matched else ())


@pytest.mark.parametrize("client_id", ["", "ü", "日本語", "a\u0000b", "\u212a", "x" * 10_000])
def test_any_client_id(client_id: str) -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m", "match": "client_id=(?s).*"}})
    assert wanted(subscriptions, client_id=client_id).metrics == ("m",)
    exact = Subscriptions({"s": {"metrics": "m", "match": "client_id=日本."}})
    assert wanted(exact, client_id=client_id).metrics == (("m",) if client_id == "日本語" else ())


def test_an_expression_that_only_java_knows(caplog: pytest.LogCaptureFixture) -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m", "match": "client_id=(?=s)shop-7"}, "t": {"metrics": "n"}})
    assert wanted(subscriptions).metrics == ("n",)
    assert "the client metrics subscription s matches no client" in caplog.text


def test_a_long_match_is_made_in_slices() -> None:
    subscriptions = Subscriptions({"s": {"metrics": "m", "match": "client_id=(a|aa)*b"}})
    work = subscriptions.wanted({**CLIENT, "client_id": "a" * 3 * SLICE_STEPS})
    assert sum(1 for _ in work) > 3


def test_intervals() -> None:
    subscriptions = Subscriptions({})
    assert wanted(subscriptions) == Wanted((), 300_000)
    subscriptions.change("slow", {"metrics": "a", "interval.ms": "3600000"})
    assert wanted(subscriptions) == Wanted(("a",), 300_000), "an interval never exceeds the default, as in Kafka"
    subscriptions.change("fast", {"interval.ms": " 100 "})
    assert wanted(subscriptions) == Wanted(("a",), 100)
    subscriptions.change("fast", {})
    assert wanted(subscriptions) == Wanted(("a",), 300_000)
    assert subscriptions.version == 3
    subscriptions.change("unknown", {})
    assert subscriptions.version == 4


def test_all_metrics_stand_for_each() -> None:
    subscriptions = Subscriptions({"a": {"metrics": "x,y"}, "b": {"metrics": "*,z"}})
    assert wanted(subscriptions).metrics == ("*",)


def test_ids() -> None:
    first = subscription_id(Wanted(("a", "b"), 100), ZERO_UUID)
    assert -(2**31) <= first < 2**31
    others = {
        subscription_id(Wanted(("a", "b"), 101), ZERO_UUID),
        subscription_id(Wanted(("a, b",), 101), ZERO_UUID),
        subscription_id(Wanted(("b", "a"), 100), ZERO_UUID),
        subscription_id(Wanted(("a", "b"), 100), bytes(15) + b"\x01"),
    }
    assert first not in others
    assert subscription_id(Wanted(("a, b",), 100), ZERO_UUID) == first, "as in Kafka, whose text is the same"
