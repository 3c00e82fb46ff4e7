"""A killed broker keeps acknowledged records, and the soak test notices a broker that does not.

Method: kill a broker a few times; remove, duplicate or change stored records before the check; and use workers whose
requests fail, or whose connection ends before the broker does.
"""

from __future__ import annotations

import threading
from random import Random

import pytest

from kafkawire.sdk.transport.blocking import ConnectionEnded
from tools.soak import kills
from tools.soak.kills import Committer, Failure, Lives


@pytest.mark.thorough
def test_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert kills.main(["--kills", "8", "--seed", "3"]) == 0
    assert "kills: 6 SIGKILL, 2 SIGTERM" in capsys.readouterr().out


def test_what_is_missing_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "WORK_SECONDS", (1.0, 1.0))
    lives = Lives(tmp_path, Random(1))
    try:
        lives.live_and_die(by_kill=True)
        plain, idempotent, synced = lives.writers
        assert plain.checked_offset
        plain.acknowledged[plain.checked_offset] = plain.sent
        with pytest.raises(Failure, match="acknowledged records are lost"):
            lives.check(is_stopped=False)
        plain.acknowledged.clear()
        idempotent.checked_offset, idempotent.last_number = 0, -1
        with pytest.raises(Failure, match="was stored, but not acknowledged"):
            lives.check(is_stopped=False)
        idempotent.checked_offset, idempotent.last_number = 0, 10
        with pytest.raises(Failure, match="record 0 at offset 0 follows record 10"):
            lives.check(is_stopped=False)
        idempotent.checked_offset, idempotent.last_number, idempotent.acknowledged = 0, -1, {0: 5}
        with pytest.raises(Failure, match="record 0 is at offset 0, but record 5 was acknowledged"):
            lives.check(is_stopped=False)
        idempotent.acknowledged, sent = dict.fromkeys(range(1), 0), idempotent.sent
        idempotent.checked_offset, idempotent.last_number, idempotent.sent = 0, -1, 0
        with pytest.raises(Failure, match="was never sent"):
            lives.check(is_stopped=False)
        idempotent.checked_offset, idempotent.last_number, idempotent.sent = sent, sent - 1, sent
        idempotent.acknowledged.clear()
        lives.committers[0].acknowledged = lives.committers[0].sent + 1
        with pytest.raises(Failure, match=r"committed \d+, acknowledged \d+, and sent"):
            lives.check(is_stopped=False)
        assert synced.last_number == synced.sent - 1
    finally:
        lives.end()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError("nothing came"), "TimeoutError: nothing came"),
        (ValueError("a bug"), "ValueError: a bug"),
        (ConnectionEnded("too early"), "a connection ended before the broker: too early"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_worker_that_fails_is_noticed(tmp_path, monkeypatch, error, said):
    def fail(self, client):
        raise error

    monkeypatch.setattr(Committer, "work", fail)
    lives = Lives(tmp_path, Random(1))
    is_ending, failures = threading.Event(), []
    try:
        lives._worked(lives.committers, is_ending, failures)
        assert said in str(failures.pop())
        is_ending.set()
        lives._worked(lives.committers, is_ending, failures)
        assert len(failures) == (not isinstance(error, ConnectionEnded))
    finally:
        lives.end()
