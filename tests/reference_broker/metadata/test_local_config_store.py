"""Configuration changes are made in order, stored on disk, and limited.

Method: use an in-memory directory and a real one, and read it again after every change; use a failing disk, background
work that waits, and damaged files.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.reference_broker.metadata.config_store import ConfigStore
from kafkawire.reference_broker.metadata.stored_entries import FILE_BYTES_MAX
from kafkawire.reference_broker.storage.checkpoints import DYNAMIC_CONFIGS
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

BROKER, GROUP = ConfigResourceType.BROKER, ConfigResourceType.GROUP
METRICS = ConfigResourceType.CLIENT_METRICS


def changed(configs: ConfigStore, kind: ConfigResourceType, name: str, **values: str) -> list[BrokerError | None]:
    outcome: list[BrokerError | None] = []
    configs.change(kind, name, lambda before: {**before, **values}, outcome.append)
    return outcome


def test_what_is_changed_is_read_again() -> None:
    bench = BrokerBench(MemoryDisk())
    configs = bench.core.dynamic_configs
    names = ["g", "a/b", "a%2Fb", "a%b/c%", " ", "=:#!", "ü\n", ""]
    for kind in (BROKER, GROUP, METRICS):
        for name in names:
            assert changed(configs, kind, name, a=f"{kind} {name}", b="") == [None]
    bench.crash()
    again = bench.core.dynamic_configs
    for kind in (BROKER, GROUP, METRICS):
        assert again.resources(kind) == configs.resources(kind) == {
            name: {"a": f"{kind} {name}", "b": ""} for name in names
        }  # fmt: skip


def test_passwords_are_hidden_in_memory_and_read_again() -> None:
    bench = BrokerBench(MemoryDisk())
    passwords = {"listener.name.x.ssl.keystore.password": "hunter2=\\\n ", "own": "hunter2"}
    for number in range(1, 4):
        configs = bench.core.dynamic_configs
        assert changed(configs, BROKER, "1", **passwords, **{"log.retention.ms": str(number)}) == [None]
        own = configs.of(BROKER, "1")
        assert own == {**passwords, "log.retention.ms": str(number)}
        assert "hunter2" not in str(own)
        assert f"'log.retention.ms': '{number}'" in str(own)
        bench.crash()
        again = bench.core.dynamic_configs.of(BROKER, "1")
        assert (again, "hunter2" in str(again)) == (own, False)


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    """The file may contain passwords of key stores."""
    changed(BrokerBench(tmp_path / "data").core.dynamic_configs, BROKER, "1", a="1")
    assert (tmp_path / "data" / DYNAMIC_CONFIGS).stat().st_mode & 0o777 == 0o600


def test_what_is_removed_is_forgotten() -> None:
    bench = BrokerBench(MemoryDisk())
    configs = bench.core.dynamic_configs
    groups = configs.resources(GROUP)
    changed(configs, GROUP, "g", a="1")
    assert groups == {"g": {"a": "1"}}
    configs.change(GROUP, "g", lambda before: {}, lambda error: None)
    assert groups == {}
    bench.crash()
    assert bench.core.dynamic_configs.of(GROUP, "g") == {}


def test_a_change_sees_those_before_it() -> None:
    waiting: list[Callable[[], None]] = []

    def later(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            work()
            done(None)

        waiting.append(run)

    bench = BrokerBench(MemoryDisk())
    bench.core.directory.queue._background = later
    configs, told = bench.core.dynamic_configs, []
    configs.on_change = lambda *resource: told.append(resource)
    first, second = changed(configs, GROUP, "g", a="1"), changed(configs, GROUP, "g", b="2")
    assert (first, second, configs.of(GROUP, "g"), told) == ([], [], {}, [])
    while waiting:
        waiting.pop(0)()
    assert (first, second, configs.of(GROUP, "g"), told) == ([None], [None], {"a": "1", "b": "2"}, [(GROUP, "g")] * 2)


def test_a_refused_change_changes_nothing() -> None:
    configs = BrokerBench(MemoryDisk()).core.dynamic_configs
    outcome: list[BrokerError | None] = []

    def refuse(before: object) -> dict[str, str]:
        raise BrokerError(ErrorCode.INVALID_CONFIG, "no")

    configs.change(GROUP, "g", refuse, outcome.append)
    (error,) = outcome
    assert error is not None
    assert (error.code, error.detail, configs.of(GROUP, "g")) == (ErrorCode.INVALID_CONFIG, "no", {})
    assert changed(configs, GROUP, "g", a="1") == [None]


def test_too_much_is_refused() -> None:
    configs = BrokerBench(MemoryDisk()).core.dynamic_configs
    assert changed(configs, METRICS, "m", metrics="x" * (FILE_BYTES_MAX // 2)) == [None]
    (error,) = changed(configs, METRICS, "n", metrics="x" * (FILE_BYTES_MAX // 2))
    assert error is not None
    assert (error.code, configs.of(METRICS, "n")) == (ErrorCode.POLICY_VIOLATION, {})
    assert changed(configs, METRICS, "m", metrics="") == [None]
    assert changed(configs, METRICS, "n", metrics="x") == [None]


def test_a_disk_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    configs = BrokerBench(disk).core.dynamic_configs

    def plan(call: DiskCall) -> None:
        if call.path.startswith(DYNAMIC_CONFIGS):
            raise OSError(errno.EIO, "a planned fault", call.path)

    disk.plan = plan
    (error,) = changed(configs, GROUP, "g", a="1")
    assert error is not None
    assert (error.code, configs.of(GROUP, "g")) == (ErrorCode.KAFKA_STORAGE_ERROR, {})
    assert "dynamic-configs cannot be written" in caplog.text
    disk.plan = None
    assert changed(configs, GROUP, "g", a="1") == [None]


@pytest.mark.parametrize("content", [b"\xff", b"group", b"people/x/a=1\n", b"group/x=1\n"])
def test_a_damaged_file_is_refused(content: bytes) -> None:
    bench = BrokerBench(MemoryDisk())
    bench.core.close()
    replace_file(bench.disk, DYNAMIC_CONFIGS, content)
    with pytest.raises(ConfigurationError, match="dynamic-configs is damaged"):
        bench.restart_again()


def test_a_value_that_has_no_effect_any_more_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = BrokerBench(MemoryDisk())
    bench.core.close()
    replace_file(bench.disk, DYNAMIC_CONFIGS, b"broker//log.retention.ms=soon\nbroker//log.segment.bytes=2000000\n")
    bench.restart_again()
    assert "a configuration of the broker has no effect: log.retention.ms" in caplog.text
    assert bench.core.options.topic_defaults == {"segment.bytes": "2000000"}
