"""A task asks Spark which part of which query it writes."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import LocalProtocolError

pytest.importorskip("pyspark")

import pyspark

from kafkawire.sdk.spark.sink.task import WriteTask, current_task


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the properties of a job whose task 3 runs in this process."""
    properties: dict[str, str] = {}

    class Context:
        def partitionId(self) -> int:
            return 3

        def getLocalProperty(self, name: str) -> str | None:
            return properties.get(name)

    monkeypatch.setattr(pyspark.TaskContext, "get", Context)
    return properties


def test_a_query(context: dict[str, str]) -> None:
    task = current_task("query")
    assert task == WriteTask("query", -1, 3)
    assert not task.is_streaming
    assert str(task) == "query query, task 3"


def test_a_stream(context: dict[str, str]) -> None:
    context.update({"sql.streaming.queryId": "stream", "streaming.sql.batchId": "7"})
    task = current_task(None)
    assert task == WriteTask("stream", 7, 3)
    assert task.is_streaming
    assert str(task) == "query stream, micro-batch 7, task 3"


def test_spark_says_nothing(context: dict[str, str]) -> None:
    context["sql.streaming.queryId"] = "stream"
    with pytest.raises(LocalProtocolError, match=r"streaming\.sql\.batchId is None"):
        current_task(None)


def test_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = lambda: None  # noqa: E731 - a one-line stand-in
    monkeypatch.setattr(pyspark.TaskContext, "get", nothing)
    with pytest.raises(LocalProtocolError, match="only Spark tasks can write"):
        current_task("query")
