"""Modes are Spark's, and dropped data is counted and logged, up to a limit.

Method: parse names in every letter case, report more damage than is logged, and check the texts for places and errors.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError, DecodeError
from kafkawire.sdk.records import BatchBuilder, MessageSetBuilder, walk
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.spark import damage
from kafkawire.sdk.spark.damage import DamageLog, Mode, Place, damage_of, error_of, parse_mode

DAMAGE = Damage(12, 30, "crc: wrong", 7)


def test_modes() -> None:
    for mode in Mode:
        assert parse_mode(mode.lower()) is parse_mode(mode) is mode
    for wrong in ("", "FAIL", 3):
        with pytest.raises(ConfigurationError, match="expected PERMISSIVE, DROPMALFORMED, FAILFAST"):
            parse_mode(wrong)  # type: ignore[arg-type]  # a wrong value is the point


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("orders", 3, row=4), "row 4 (orders-3)"),
        (Place(None, None, row=4), "row 4"),
        (Place("orders", 3, "/data/orders-3/0.log"), "/data/orders-3/0.log (orders-3)"),
        (Place(None, None, "/data/0.log"), "/data/0.log"),
    ],
)
def test_places(place: Place, words: str) -> None:
    assert str(place) == words
    assert str(error_of(place, DAMAGE)) == f"{words}, batch of offset 7 at byte 12: crc: wrong"
    assert str(error_of(place, DAMAGE._replace(base_offset=None))) == f"{words} at byte 12: crc: wrong"


@pytest.mark.parametrize(("builder", "first"), [(BatchBuilder(base_offset=7), 7), (MessageSetBuilder(1), None)])
def test_damage_of_a_batch(builder: BatchBuilder | MessageSetBuilder, first: int | None) -> None:
    """The damage has the base offset if the header contains it."""
    builder.append(1, None, b"v")
    (batch,) = walk(builder.build())
    found = damage_of(batch, 12, DecodeError("records[0]", 3, "no key"))
    assert found == Damage(12, batch.size_in_bytes, "records[0]: no key", first)


def test_what_is_dropped_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "LOGGED_MAX", 2)
    log = DamageLog()
    log.finish()
    assert caplog.messages == []
    for _ in range(5):
        log.add(Place("orders", 3, row=4), DAMAGE)
    log.finish()
    line = "dropped from row 4 (orders-3): 30 bytes at 12, the batch of offset 7: crc: wrong"
    assert caplog.messages == [line, line, 'dropped in total: {"damaged": 5, "bytes": 150}']
    assert (log.count, log.size_bytes) == (5, 150)
