"""The most specific limit applies, clients that it applies to together share a rate, and rates do not pile up.

Method: set limits at every level, in several orders, and compare with the order of precedence in Kafka's documentation
and tests (`ClientQuotaManagerTest`); record values at given times.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, EntityName
from kafkawire.reference_broker.security.quotas import client_quota
from kafkawire.reference_broker.security.quotas.client_quota import IDLE_MS, Client, Owner, RateQuota
from kafkawire.reference_broker.security.quotas.rates import Window

WINDOW = Window(11, 1_000)
ALICE = Client("alice", "app")

#: All keys that concern the client, the most specific first, and the owner of the rate that each one gives.
PRECEDENCE: list[tuple[tuple[EntityName, EntityName], Owner]] = [
    (("alice", "app"), Owner("alice", "app")),
    (("alice", DEFAULT), Owner("alice", "app")),
    (("alice", None), Owner("alice", "")),
    ((DEFAULT, "app"), Owner("alice", "app")),
    ((DEFAULT, DEFAULT), Owner("alice", "app")),
    ((DEFAULT, None), Owner("alice", "")),
    ((None, "app"), Owner("", "app")),
    ((None, DEFAULT), Owner("", "app")),
]


def test_precedence() -> None:
    quota = RateQuota(WINDOW).limits
    for number, (key, _) in enumerate(PRECEDENCE):
        quota.set_limit(*key, number)
    for number, (key, owner) in enumerate(PRECEDENCE):
        assert quota.owner_of(ALICE) == owner
        assert quota.limit_of(owner) == number
        quota.set_limit(*key, None)
    assert not quota.is_enabled
    assert quota.owner_of(ALICE) == Owner("", "app")
    assert quota.limit_of(Owner("", "app")) is None


@pytest.mark.parametrize(("key", "owner"), PRECEDENCE, ids=lambda given: str(given))
def test_one_limit_alone(key: tuple[EntityName, EntityName], owner: Owner) -> None:
    quota = RateQuota(WINDOW).limits
    quota.set_limit(*key, 5.0)
    assert (quota.owner_of(ALICE), quota.limit_of(quota.owner_of(ALICE))) == (owner, 5.0)
    quota.set_limit(*key, 6.0)
    quota.set_limit(*key, None)
    assert not quota.is_enabled


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_clients_without_a_limit_of_their_own(order: tuple[int, ...]) -> None:
    quota = RateQuota(WINDOW).limits
    keys: list[tuple[EntityName, EntityName]] = [("bob", "app"), ("carol", None), (None, "other")]
    for number in order:
        quota.set_limit(*keys[number], 1.0)
    assert quota.owner_of(ALICE) == Owner("", "app")
    assert quota.limit_of(Owner("", "app")) is None
    assert quota.limit_of(Owner("", "")) is None
    assert quota.owner_of(Client("carol", "other")) == Owner("carol", "")


def test_a_user_shares_a_rate_and_client_ids_do_not() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit("alice", None, 10.0)
    assert quota.record(Client("alice", "a"), 60, 0) == 0
    assert quota.record(Client("alice", "b"), 60, 0) == 2_000
    assert quota.record(Client("bob", "b"), 10_000, 0) == 0
    by_id = RateQuota(WINDOW)
    by_id.limits.set_limit(None, DEFAULT, 10.0)
    assert by_id.record(Client("alice", "a"), 60, 0) == 0
    assert by_id.record(Client("alice", "b"), 60, 0) == 0
    assert by_id.record(Client("bob", "b"), 60, 0) == 2_000


def test_a_changed_limit_applies_to_what_was_used() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit("alice", None, 100.0)
    assert quota.record(ALICE, 150, 0) == 0
    quota.limits.set_limit("alice", None, 10.0)
    assert quota.record(ALICE, 0, 0) == 5_000
    quota.limits.set_limit("alice", None, None)
    quota.limits.set_limit("bob", None, 10.0)
    assert quota.record(ALICE, 0, 0) == 0


@pytest.mark.parametrize("key", [("alice", None), ("alice", "app"), (DEFAULT, None)], ids=str)
def test_a_removed_limit_is_removed_from_what_is_measured(key: tuple[EntityName, EntityName]) -> None:
    """Limits of others keep the quota in force."""
    quota = RateQuota(WINDOW)
    quota.limits.set_limit("bob", key[1], 10.0)
    quota.limits.set_limit(*key, 10.0)
    assert quota.record(ALICE, 150, 0) == 5_000
    quota.limits.set_limit(*key, None)
    assert quota.record(ALICE, 0, 0) == 0
    assert quota.most_at_once(ALICE, 0) is None


def test_the_next_limit_applies_once_a_more_specific_one_is_removed() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit(DEFAULT, None, 12.0)
    quota.limits.set_limit("alice", None, 10.0)
    assert quota.record(ALICE, 150, 0) == 5_000
    quota.limits.set_limit("alice", None, None)
    assert quota.record(ALICE, 0, 0) == 2_500


def test_without_limits_nothing_is_measured() -> None:
    quota = RateQuota(WINDOW)
    assert quota.record(ALICE, 1e9, 0) == 0
    quota.record_silently(ALICE, 1e9, 0)
    assert quota.most_at_once(ALICE, 0) is None
    assert not quota.limits._meters
    quota.limits.set_limit(DEFAULT, None, 10.0)
    assert quota.record(ALICE, 100, 0) == 0


def test_silent_values_count_later() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit("alice", None, 10.0)
    quota.record_silently(ALICE, 150, 0)
    assert quota.record(ALICE, 0, 0) == 5_000
    quota.record_silently(ALICE, -100, 0)
    assert quota.record(ALICE, 0, 0) == 0


def test_the_most_that_fits_into_a_window() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit("alice", None, 10.0)
    assert quota.most_at_once(ALICE, 0) == 100
    assert quota.most_at_once(Client("bob", "app"), 0) is None
    assert quota.record(ALICE, 100, 0) == 0
    assert quota.record(ALICE, 1, 0) == 100


def test_idle_and_superfluous_rates_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit(None, DEFAULT, 10.0)
    quota.record(Client("u", "a"), 500, 0)
    quota.record(Client("u", "b"), 500, IDLE_MS - 1)
    quota.record(Client("u", "c"), 500, IDLE_MS)
    assert [owner.client_id for owner in quota.limits._meters] == ["b", "c"]
    monkeypatch.setattr(client_quota, "METERS_MAX", 2)
    quota.record(Client("u", "b"), 0, IDLE_MS)
    quota.record(Client("u", "d"), 0, IDLE_MS)
    assert [owner.client_id for owner in quota.limits._meters] == ["b", "d"], "the least recently used one is dropped"


def test_a_rate_in_use_is_not_idle() -> None:
    quota = RateQuota(WINDOW)
    quota.limits.set_limit(None, DEFAULT, 10.0)
    for now_ms in (0, IDLE_MS - 1):
        quota.record(Client("u", "busy"), 500, now_ms)
    quota.record(Client("u", "new"), 0, IDLE_MS)
    assert [owner.client_id for owner in quota.limits._meters] == ["busy", "new"]
    assert quota.record(Client("u", "busy"), 0, IDLE_MS) > 0, "what it has used in the window is not forgiven"
