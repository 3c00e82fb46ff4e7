"""Producer options that do not fit together are rejected with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.producer.settings import read_producer_options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"enable_idempotence": True, "acks": 1}, 'enable_idempotence=True: idempotence requires acks="all", got 1'),
        ({"enable_idempotence": True, "max_in_flight": 6}, "max_in_flight of at most 5, got 6"),
        ({"enable_idempotence": True, "retries": 0}, "retries from 1"),
        ({"enable.idempotence": "yes"}, "expected True, False or None"),
        ({"transactional_id": "x", "acks": 1}, "transactional_id='x': idempotence requires acks=\"all\", got 1"),
        (
            {"transactional_id": "x", "max_in_flight": 6},
            "transactional_id='x': idempotence requires max_in_flight of at most 5",
        ),
        ({"transactional_id": "x", "retries": 0}, "transactional_id='x': idempotence requires retries from 1"),
        (
            {"transactional_id": "x", "enable_idempotence": False},
            "enable_idempotence=False: transactions require idempotence",
        ),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_producer_options("a:1", given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"max_in_flight": 6}, False),
        ({"retries": 0}, False),
        ({"enable_idempotence": False}, False),
        ({"enable_idempotence": True}, True),
        ({"transactional_id": "x"}, True),
        ({"transactional_id": "x", "enable_idempotence": True}, True),
    ],
)
def test_idempotence_unless_something_rules_it_out(given: dict[str, Any], expected: bool | None) -> None:
    options = read_producer_options("a:1", given)
    assert options.enable_idempotence is expected
    assert all(getattr(options, name) == value for name, value in given.items())
