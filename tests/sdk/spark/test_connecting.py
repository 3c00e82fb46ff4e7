"""A client that starts waits for unavailable brokers, up to a limit, and for nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.errors import AuthenticationFailed, ConnectFailed, ConnectionLost, KafkaWireError
from kafkawire.sdk.spark import connecting
from kafkawire.sdk.spark.connecting import connect, connected
from kafkawire.sync import Consumer
from kafkawire.testing import Broker


class Away:
    """Unavailable brokers, and a clock that only pauses advance.

    Args:
        errors: the error from each attempt; the last one is repeated, and None means success.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: KafkaWireError | None) -> None:
        self._errors = [*errors]
        self.now_ms = 1_000
        self.attempts = 0
        self.pauses: list[int] = []
        monkeypatch.setattr(connecting, "monotonic_ms", lambda: self.now_ms)
        monkeypatch.setattr(connecting, "pause", self.pause)
        monkeypatch.setattr(connecting, "random_fraction", lambda: 0.5)

    def start(self) -> None:
        self.attempts += 1
        error = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        if error is not None:
            raise error

    def pause(self, pause_ms: int) -> None:
        self.pauses.append(pause_ms)
        self.now_ms += pause_ms


def refused() -> ConnectFailed:
    return ConnectFailed("any broker", "Connection refused")


def test_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses grow up to their own limit."""
    away = Away(monkeypatch, *(refused() for _ in range(7)), None)
    connect(away.start, 60_000)
    assert away.pauses == [100, 200, 400, 800, 1_600, 3_000, 3_000]


def test_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Away(monkeypatch, refused(), ConnectFailed("any broker", "no route"))
    with pytest.raises(ConnectFailed, match="cannot connect to any broker: no route") as caught:
        connect(away.start, 3_000)
    assert away.pauses == [100, 200, 400, 800]
    assert caught.value.__notes__ == ["Attempts: 5, none started after 3000 ms."]


@pytest.mark.parametrize("error", [AuthenticationFailed("broker", "sasl"), ConnectionLost("as the test wants it")])
def test_what_does_not_help_is_not_repeated(error: KafkaWireError, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retrying a refused login might lock the user out; the client itself handles errors after connecting."""
    away = Away(monkeypatch, error)
    with pytest.raises(type(error)):
        connect(away.start, 60_000)
    assert away.attempts == 1


def test_pauses_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    event = SimpleNamespace(wait=waited.append)
    monkeypatch.setattr(connecting, "threading", SimpleNamespace(Event=lambda: event))
    connecting.pause(70)
    assert waited == [0.07]


def test_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same client is restarted, and closed at the end."""
    with Broker(ephemeral=True) as broker:
        client: Any = Consumer(broker.bootstrap, auto_offset_reset="none")
        broker.stop()
        monkeypatch.setattr(connecting, "pause", lambda _: broker.start())
        with connected(client, 60_000) as consumer:
            assert consumer is client
            assert consumer.assignment == frozenset()
        with pytest.raises(KafkaWireError, match="closed"):
            client.start()
