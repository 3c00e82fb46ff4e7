"""The examples for running a broker, a systemd unit and a Containerfile, fit the broker's command.

Method: check the unit with systemd's own tool, read the commands of both with the command's parser, and run
`kafkawire broker --check` on their configuration files.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.commands.broker.broker import parser_for
from kafkawire.commands.main import main
from tests.guide import ROOT
from tests.needs import SYSTEMD

SYSTEMD_FOLDER = ROOT / "examples" / "systemd"
CONTAINER = ROOT / "examples" / "container"
UNIT = SYSTEMD_FOLDER / "kafkawire-broker.service"
PROGRAM = "/opt/kafkawire/bin/kafkawire"


def entries(name: str) -> list[str]:
    """Return the values of an entry of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)


@SYSTEMD.mark
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd would also complain about a missing program, so the unit names this Python instead."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    # Units of the machine itself may have faults of their own.
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


def test_the_commands_of_the_unit() -> None:
    commands = [shlex.split(command) for command in (*entries("ExecStartPre"), *entries("ExecStart"))]
    assert [command[:2] for command in commands] == [[PROGRAM, "broker"]] * 2
    given = [parser_for("kafkawire broker").parse_args(command[2:]) for command in commands]
    assert [each.check for each in given] == [True, False]
    assert {each.config for each in given} == {"/etc/kafkawire/server.properties"}


def test_the_broker_has_the_time_it_may_need() -> None:
    """systemd must not kill a broker that is within its own limits."""
    from kafkawire.reference_broker import server

    (seconds,) = entries("TimeoutStopSec")
    assert int(seconds) > 2 * (server._LAST_WORK_SECONDS + server._LAST_SYNC_SECONDS)


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile with their arguments."""
    text = re.sub(r"\\\n\s*", "", (CONTAINER / "Containerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_containerfile() -> None:
    found = dict(instructions())
    assert found["USER"] == "1000:1000"
    source, place = found["COPY"].split()
    assert (CONTAINER / source).is_file()
    program, *start = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    assert (program, start[0]) == ("kafkawire", "broker")
    assert parser_for("kafkawire broker").parse_args(start[1:]).config == place
    config = (CONTAINER / source).read_text("utf-8")
    assert f"log.dirs={found['VOLUME']}\n" in config
    for port in found["EXPOSE"].split():
        assert f":{port}\n" in config
    probe = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    assert "http://127.0.0.1:9404/healthz" in probe[2]
    compile(probe[2], "health check", "exec")


@pytest.mark.parametrize("folder", [SYSTEMD_FOLDER, CONTAINER], ids=lambda folder: folder.name)
def test_the_configurations_have_no_entry_without_effect(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "server.properties"
    arguments = ["broker", "--check", "--json", "--config", str(config), "--data", str(tmp_path / "data")]
    # The addresses may be in use on this machine.
    arguments += ["--option", "listeners=PLAINTEXT://127.0.0.1:0", "--option", "metrics_listen=127.0.0.1:0"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert {finding["kind"] for finding in report["findings"]} <= {"unsafe", "warning"}
    assert {"slow_request_ms", "num_partitions"} <= {option["name"] for option in report["options"]}
