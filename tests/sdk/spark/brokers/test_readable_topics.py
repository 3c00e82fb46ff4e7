"""Brokers report which topics a user may read; brokers that do not report this will refuse the read later.

Method: use a reference broker, and change its responses in the client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.spark.audit.broker_facts import broker_input
from kafkawire.sdk.spark.audit.store import Manifest
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.readable_topics import unreadable
from kafkawire.testing import Broker
from tests.sdk.spark.brokers.topics import create

DESCRIBE, READ = 1 << AclOperation.DESCRIBE, 1 << AclOperation.READ


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    with Broker(tmp_path) as broker:
        create(broker, a=1, b=1, c=1)
        yield {"bootstrap.servers": broker.bootstrap}


def answer(monkeypatch: pytest.MonkeyPatch, rights: dict[str, int]) -> None:
    """Make brokers answer with these permissions."""
    original = Operations.request

    async def request(operations: Operations, target: Any, question: Any, response: Any, *more: Any, **by: Any) -> Any:
        found = await original(operations, target, question, response, *more, **by)
        if response is MetadataResponse:
            for topic in found.topics:
                topic.topic_authorized_operations = rights[topic.name]
        return found

    monkeypatch.setattr(Operations, "request", request)


def test_who_does_not_tell(settings: dict[str, str]) -> None:
    assert unreadable(ClientSettings(settings), ["a", "b"]) == []


def test_rights(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, {"a": READ | DESCRIBE, "b": DESCRIBE, "c": 0})
    assert unreadable(ClientSettings(settings), ["c", "a", "b"]) == ["b", "c"]
    assert unreadable(ClientSettings(settings), ["a"]) == []


def test_an_audit_of_what_may_be_read(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unreadable topics are omitted if the query does not name them; otherwise, they are errors."""
    answer(monkeypatch, {"a": READ, "b": DESCRIBE, "c": DESCRIBE})
    assert set(broker_input(settings, None, Manifest(), "out").topic_ids) == {"a"}
    assert "skipped, because this user may not read them: b, c" in caplog.text
    for topics, denied in ((["a", "b"], "b"), (["c"], "c")):
        with pytest.raises(
            ConfigurationError, match=f"topics='{denied}': this user may not read them: the permission READ"
        ):
            broker_input(settings, topics, Manifest(), "out")
    answer(monkeypatch, dict.fromkeys("abc", DESCRIBE))
    with pytest.raises(ConfigurationError, match="topics='a, b, c': this user may not read them"):
        broker_input(settings, None, Manifest(), "out")


def test_an_audit_without_what_was_deleted(settings: dict[str, str]) -> None:
    before = Manifest(next_offsets={"gone": {"0": 5}})
    assert set(broker_input(settings, ["a", "gone"], before, "out").topic_ids) == {"a"}
    with pytest.raises(ConfigurationError, match="topics='gone': available topics: a, b, c"):
        broker_input(settings, ["a", "gone"], Manifest(), "out")
