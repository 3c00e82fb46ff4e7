"""Each subject gets one line per interval, which says how many lines were suppressed; subjects are independent."""

from __future__ import annotations

import inspect
import logging

import pytest

from kafkawire.sdk.log_limit import INTERVAL_MS, SUBJECTS_MAX, LogLimit


@pytest.fixture
def limit(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> LogLimit:
    # An earlier test's simulation may have wrapped this method; the extra frame would change the code location in the
    # line.
    monkeypatch.setattr(LogLimit, "_write", inspect.unwrap(LogLimit._write))
    caplog.set_level(logging.INFO, "kafkawire.tests")
    return LogLimit(logging.getLogger("kafkawire.tests"))


def test_a_line_an_interval_about_each_subject(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    limit.warning("a", 1_000, "%s failed", "a")
    for later_ms in (0, 1, INTERVAL_MS - 1):
        limit.warning("a", 1_000 + later_ms, "%s failed", "a")
    limit.warning("b", 1_001, "%s failed", "b")
    assert caplog.messages == ["a failed", "b failed"]
    limit.warning("a", 1_000 + INTERVAL_MS, "%s failed", "a")
    assert caplog.messages[2:] == ["a failed (and 3 more like it)"]
    limit.warning("a", 1_000 + 2 * INTERVAL_MS, "%s failed", "a")
    assert caplog.messages[3:] == ["a failed"]


def test_an_interval_begins_with_its_line(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for now_ms in (0, 10 * INTERVAL_MS, 11 * INTERVAL_MS - 1):
        limit.warning("a", now_ms, "failed")
    assert len(caplog.messages) == 2


def test_a_clock_that_is_set_back_silences_nobody(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    limit.warning("a", 100 * INTERVAL_MS, "failed")
    limit.warning("a", 50 * INTERVAL_MS, "failed")
    assert len(caplog.messages) == 2


def test_each_level_and_the_place_of_the_event(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for level in ("info", "warning", "error"):
        getattr(limit, level)(level, 0, "text")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR"]
    assert {record.filename for record in caplog.records} == {"test_log_limit.py"}


def test_defect_with_its_traceback(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        try:
            raise RuntimeError("a defect")
        except RuntimeError:
            limit.exception("defect", 0, "%s failed", "it")
    (record,) = caplog.records
    assert (record.levelname, record.message, record.filename) == ("ERROR", "it failed", "test_log_limit.py")
    assert "RuntimeError: a defect" in caplog.text


def test_the_subjects_are_bounded(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for subject in range(SUBJECTS_MAX + 1):
        limit.info(subject, 0, "%d", subject)
    caplog.clear()
    limit.info(SUBJECTS_MAX, 1, "held back")
    limit.info(0, 1, "forgotten")
    assert caplog.messages == ["forgotten"]
