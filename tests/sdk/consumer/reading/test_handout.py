"""The handouts of the engine in use are used."""

from __future__ import annotations

from kafkawire.sdk.consumer.reading import handout
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.records.engines.selection import built


def test_the_engine_in_use() -> None:
    name = "native" if ENGINE == "native" and built is not None else "python"
    assert handout.Handout.__module__.rpartition(".")[2] == name
    assert handout.RecordStream.__module__ == handout.Handout.__module__
