"""Changes to quotas are checked, and keep everything else that belongs to the entity.

Method: apply changes to configurations; `apis/test_alter_client_quotas.py` has the tables of both releases.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.quotas.alterations import (
    QUOTA_KEYS,
    Alteration,
    check_alteration,
    check_alteration_in_registry,
)
from kafkawire.sdk.errors import BrokerError

BEFORE = {"SCRAM-SHA-256": "salt=", "producer_byte_rate": "5", "consumer_byte_rate": "6"}


def test_other_configurations_are_kept() -> None:
    alteration = Alteration({"user": "alice"}, [("producer_byte_rate", None), ("request_percentage", 7.5)])
    after = {"SCRAM-SHA-256": "salt=", "consumer_byte_rate": "6", "request_percentage": "7.5"}
    assert check_alteration(alteration, False)(BEFORE) == after
    assert check_alteration_in_registry(alteration)(BEFORE) == after
    assert len(QUOTA_KEYS) == 5


@pytest.mark.parametrize(("value", "stored"), [(5.0, "5.0"), (5.0000001, "5.0000001"), (1e15, "1.0E15"), (0.1, None)])
def test_values_of_a_standalone_broker(value: float, stored: str | None) -> None:
    alteration = Alteration({"user": "alice"}, [("producer_byte_rate", value)])
    if stored is None:
        with pytest.raises(BrokerError, match="cannot be a fractional value"):
            check_alteration(alteration, False)
    else:
        assert check_alteration(alteration, False)({}) == {"producer_byte_rate": stored}
