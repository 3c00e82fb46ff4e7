"""`kafkawire groups` reads its arguments, prints what it has done, and reports errors in one line.

Method: run the command in this process; `test_offset_migration.py` tests the copying.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kafkawire import TopicPartition
from kafkawire.commands import main
from tests.commands.groups.migrating import Scene

T0 = TopicPartition("t", 0)


def test_the_command_has_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["groups", "--help"]) == 0
    assert "migrate-offsets" in capsys.readouterr().out


def test_properties_are_those_of_the_clients(scene: Scene) -> None:
    scene.put(T0, 5)
    assert "client.id" in scene.run("kafka", "--property", "client.id", code=2)
    assert "no such option" in scene.run("kafka", "--property", "nothing.like.it=1", code=1)
    scene.run("kafka", "--property", "client.id=mover", "--property", "default.api.timeout.ms=10000")
    assert scene.in_kafka().keys() == {T0}


def test_properties_for_zookeeper(scene: Scene, tmp_path: Path) -> None:
    scene.put(T0, 5)
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="a" password="b"; };'
    )
    scene.run("kafka", "--property", f"java.security.auth.login.config={jaas}")
    login = scene.server.securities[-1].sasl
    assert login is not None
    assert login.user == "a"
    wrong = f"java.security.auth.login.config={tmp_path / 'none'}"
    assert "cannot be read" in scene.run("kafka", "--property", wrong, code=1)


def test_without_kazoo_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("kazoo", "kazoo.protocol"):
        monkeypatch.setitem(sys.modules, name, None)
    arguments: list[Any] = ["g", "--bootstrap", "b:1", "--zookeeper", "z:1", "--to", "kafka"]
    assert main.main(["groups", "migrate-offsets", *arguments]) == 1
    assert 'pip install "kafkawire[zookeeper]"' in capsys.readouterr().err


def test_a_dry_run_copies_nothing(scene: Scene) -> None:
    scene.put(T0, 5)
    assert "1 offset of group g-test_a_dry_run_copies_nothing would be copied to kafka" in scene.run(
        "kafka", "--dry-run"
    )
    assert scene.in_kafka() == {}


@pytest.mark.parametrize("to", ["kafka", "zookeeper"])
def test_a_group_without_offsets(scene: Scene, to: str) -> None:
    assert scene.run(to) == f"0 offsets of group {scene.group} were copied to {to}\n"
