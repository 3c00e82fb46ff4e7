"""Requests about client metrics in order, and Apache Kafka 4.3's answer to each.

The answers come from a real broker; `tests/kafka/test_small_admin_apis.py` verifies them. All requests of a group come
from one connection, whose client calls itself `CLIENT_ID` and does not say which library it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.telemetry.subscriptions import Wanted, subscription_id
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["CLIENT_ID", "STORIES", "SUBSCRIPTIONS", "Story", "TelemetryStep", "shown"]

CLIENT_ID: Final = "kafkawire-tests"

_INTERVAL_MS: Final = 300_000

#: The names of subscriptions, all of which a story sets; those without configurations are deleted.
SUBSCRIPTIONS: Final = ("zzz.first", "zzz.second", "zzz.third")


class TelemetryStep(NamedTuple):
    """A request and its answer.

    Attributes:
        name: the subject of the step.
        request: the request.
        answer: the answer; see `shown`.
    """

    name: str
    request: Message
    answer: Any


class Story(NamedTuple):
    """Requests of one connection.

    Attributes:
        name: the subject of the story.
        subscriptions: the configurations of the subscriptions, keyed by name.
        steps: the requests.
    """

    name: str
    subscriptions: Mapping[str, Mapping[str, str]]
    steps: tuple[TelemetryStep, ...]


def shown(response: Message) -> Any:
    """Return what a step compares of a response: its code or, of a subscription, everything else."""
    match response:
        case GetTelemetrySubscriptionsResponse(error_code=ErrorCode.NONE):
            wanted = tuple(response.requested_metrics)
            assert response.client_instance_id != ZERO_UUID
            assert [*response.accepted_compression_types] == [4, 3, 1, 2]
            assert (response.telemetry_max_bytes, response.delta_temporality) == (1_048_576, True)
            return response.subscription_id, response.push_interval_ms, wanted
        case GetTelemetrySubscriptionsResponse() | PushTelemetryResponse():
            return ErrorCode(response.error_code).name
    raise TypeError(type(response).__name__)


def _id(number: int) -> bytes:
    """Return a client instance id; all bits of its hash differ from those of others."""
    return bytes((number * 37 + place * 89 + 1) % 256 for place in range(16))


def _get(number: int) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(_id(number))


def _subscribed(number: int, *metrics: str, interval_ms: int = _INTERVAL_MS) -> tuple[int, int, tuple[str, ...]]:
    """Return the answer to a client that is to push metrics, which are in the order of Kafka's hash tables."""
    return subscription_id(Wanted(metrics, interval_ms), _id(number)), interval_ms, metrics


def _push(number: int, subscription: int | None = None, **fields: Any) -> PushTelemetryRequest:
    if subscription is None:
        subscription = _subscribed(number)[0]
    return PushTelemetryRequest(_id(number), subscription, **{"metrics": b"", **fields})


_Step = TelemetryStep

STORIES: Final = (
    Story(
        "no subscription",
        {},
        (
            _Step("subscribe", _get(1), _subscribed(1)),
            _Step("subscribe too early", _get(1), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("push with another subscription", _push(1, 7), "UNKNOWN_SUBSCRIPTION_ID"),
            _Step("subscribe after that", _get(1), _subscribed(1)),
            _Step("push too early", _push(1), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("subscribe too early again", _get(1), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("the last push may be early", _push(1, terminating=True), "NONE"),
            _Step("push after the last push", _push(1), "INVALID_REQUEST"),
            _Step("the last push was not the last one", _push(1), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("subscribe with compression", _get(2), _subscribed(2)),
            _Step("push with an unknown compression", _push(2, compression_type=9), "UNSUPPORTED_COMPRESSION_TYPE"),
            _Step("subscribe after the compression", _get(2), _subscribed(2)),
            _Step("subscribe for much", _get(3), _subscribed(3)),
            _Step("push too much", _push(3, metrics=bytes(1_048_577)), "TELEMETRY_TOO_LARGE"),
            _Step("subscribe after too much", _get(3), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("push without asking", _push(4), "NONE"),
            _Step("push too early after that", _push(4), "THROTTLING_QUOTA_EXCEEDED"),
            _Step("an unknown subscription without asking", _push(5, 7), "UNKNOWN_SUBSCRIPTION_ID"),
            _Step("push without an id", PushTelemetryRequest(ZERO_UUID), "INVALID_REQUEST"),
            _Step("push with a reserved id", PushTelemetryRequest(bytes(15) + b"\x01"), "INVALID_REQUEST"),
        ),
    ),
    Story(
        "subscriptions for all clients",
        {
            SUBSCRIPTIONS[0]: {
                "metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.",
                "interval.ms": "7000",
            },
            SUBSCRIPTIONS[1]: {"metrics": "org.apache.kafka.consumer.,a.b, c", "interval.ms": "3600000"},
            SUBSCRIPTIONS[2]: {"interval.ms": "200000"},
        },
        (
            _Step(
                "the union of the metrics",
                _get(6),
                _subscribed(
                    6, "org.apache.kafka.producer.", "org.apache.kafka.consumer.", "c", "a.b", interval_ms=7_000
                ),
            ),
        ),
    ),
    Story(
        "all metrics",
        {SUBSCRIPTIONS[0]: {"metrics": "*", "interval.ms": "400000"}, SUBSCRIPTIONS[1]: {"metrics": "a"}},
        (_Step("all", _get(7), _subscribed(7, "*")),),
    ),
    Story(
        "subscriptions that match",
        {
            SUBSCRIPTIONS[0]: {
                "metrics": "a",
                "match": "client_id=kafka.*-tests,client_software_name=unknown,client_software_version=u[a-z]+n",
            },
            SUBSCRIPTIONS[1]: {"metrics": "b", "match": "client_source_address=127.0.0.1, client_source_port = [0-9]+"},
            SUBSCRIPTIONS[2]: {"metrics": "c", "match": "client_id=kafka,client_source_address=127.0.0.1"},
        },
        (_Step("two of three", _get(8), _subscribed(8, "a", "b")),),
    ),
    Story(
        "one client",
        {SUBSCRIPTIONS[0]: {"metrics": "a", "match": "client_instance_id=KYLbNI3mP5jxSqP8Va4HYA|x"}},
        (
            _Step("that client", _get(8), _subscribed(8, "a")),
            _Step("another client", _get(9), _subscribed(9)),
        ),
    ),
)
