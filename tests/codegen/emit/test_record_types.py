"""The table of internal records lists every record type under its topic.

Method: run the emitter on a few schemas, execute its text, and check the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafkawire.codegen.emit.record_types import emit_record_types
from kafkawire.codegen.spec import MessageSpec, RecordFile, Removal, SchemaFile, SingleFile
from kafkawire.codegen.versions import NONE, Versions

REMOVED = (Removal("4.1", Versions(0, 0)),)


def record(name: str, kind: int, versions: Versions, removed: tuple[Removal, ...] = ()) -> RecordFile:
    key = MessageSpec(f"{name}Key", "coordinator-key", kind, versions, removed=removed)
    value = MessageSpec(f"{name}Value", "coordinator-value", kind, versions, removed=removed)
    return RecordFile(name, "__offsets", key, value)


def test_record_types() -> None:
    once = Versions(0, 0)
    files: dict[Path, SchemaFile] = {
        Path("coordinator/offsets/late.yaml"): record("Late", 11, once),
        Path("coordinator/offsets/early.yaml"): record("Early", 2, once),
        Path("coordinator/offsets/never.yaml"): record("Never", 3, NONE),
        Path("coordinator/offsets/removed.yaml"): record("Removed", 9, NONE, REMOVED),
        Path("cluster/topic.yaml"): SingleFile((MessageSpec("TopicRecord", "metadata", 2, once),)),
        Path("cluster/never.yaml"): SingleFile((MessageSpec("NeverRecord", "metadata", 3, NONE),)),
        Path("cluster/removed.yaml"): SingleFile((MessageSpec("RemovedRecord", "metadata", 4, NONE, removed=REMOVED),)),
        Path("storage/state.yaml"): SingleFile((MessageSpec("State", "data", None, once),)),
    }
    found: dict[str, Any] = {}
    text = emit_record_types(files, "digest")
    exec(compile(text, "generated", "exec"), found)
    assert found["KEYED_RECORDS"] == {
        "__offsets": {2: ("EarlyKey", "EarlyValue"), 9: ("RemovedKey", "RemovedValue"), 11: ("LateKey", "LateValue")}
    }
    assert list(found["KEYED_RECORDS"]["__offsets"]) == [2, 9, 11]
    assert found["FRAMED_RECORDS"] == {"__cluster": {2: "TopicRecord", 4: "RemovedRecord"}}
    assert "# sha256: digest" in text
