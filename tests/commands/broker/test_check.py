"""`kafkawire broker --check` reports what a configuration means and what is wrong with it, and starts nothing.

Method: check configurations in this process; each finding has a case with it and a case without.
"""

from __future__ import annotations

import json
import os
import resource
import socket
from types import SimpleNamespace

import pytest

from kafkawire.commands.broker.broker import parser_for
from kafkawire.commands.broker.check import check
from kafkawire.commands.broker.findings import Kind, Report
from kafkawire.commands.broker.settings import read_settings
from kafkawire.commands.main import main
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.config_file import read_config

ZOOKEEPER = "zookeeper.connect=zk.invalid:2181\nbroker.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\n"

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(autouse=True)
def user(monkeypatch):
    """Run as a user without privileges and with many files, even if root runs the tests."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 100_000))


def report(tmp_path, *arguments: str, text: str | None = None, data: str | None = "data") -> Report:
    config = None
    if text is not None:
        path = tmp_path / "server.properties"
        path.write_text(text)
        config = read_config(path)
    else:
        arguments = (*arguments, "--listen", "127.0.0.1:0")
    place = ("--ephemeral",) if data is None else ("--data", str(tmp_path / data))
    parser = parser_for("kafkawire broker")
    return check(read_settings(parser, parser.parse_args([*arguments, *place]), config), config)


def found(made: Report, kind: Kind) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in made.findings if each.kind is kind]


def test_a_broker_on_this_machine_only(tmp_path):
    made = report(tmp_path, "--option", "num.partitions=3", "--option", "node.id=2")
    assert (made.mode, made.node_id, made.zookeeper, made.open_files_max) == ("standalone", 2, None, 100_000)
    assert made.would_start
    (listener,) = made.listeners
    assert (listener.name, listener.protocol, listener.role) == ("PLAINTEXT", "PLAINTEXT", "clients")
    assert [(each.kafka_name, each.value, each.default) for each in made.options] == [
        ("node.id", "2", "1"),
        ("num.partitions", "3", "1"),
    ]
    assert not (tmp_path / "data").exists()


def test_an_option_at_its_default_is_no_difference(tmp_path):
    assert report(tmp_path, "--option", "log.segment.bytes=1073741824").options == ()
    (option,) = report(tmp_path, "--option", "log.segment.bytes=2000000").options
    assert (option.value, option.default) == ("2000000", "1073741824")


def test_a_member_of_a_cluster(tmp_path):
    made = report(tmp_path, text=ZOOKEEPER)
    assert (made.mode, made.node_id, made.zookeeper) == ("cluster", 7, "zk.invalid:2181")
    assert [each.role for each in made.listeners] == ["clients and brokers"]
    unsafe = found(made, Kind.UNSAFE)
    assert any(each.startswith("default.replication.factor: ") for each in unsafe)
    assert any(each.startswith("zookeeper.set.acl: ") for each in unsafe)
    assert not any(each.startswith("unclean.leader.election.enable: ") for each in unsafe)
    made = report(tmp_path, text=f"{ZOOKEEPER}unclean.leader.election.enable=true\ndefault.replication.factor=3\n")
    unsafe = found(made, Kind.UNSAFE)
    assert any(each.startswith("unclean.leader.election.enable: ") for each in unsafe)
    assert not any(each.startswith("default.replication.factor: ") for each in unsafe)


def test_listeners_of_a_cluster_have_roles(tmp_path):
    text = ZOOKEEPER.replace(
        "listeners=PLAINTEXT://127.0.0.1:0",
        "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0\nlistener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
    )
    made = report(tmp_path, text=f"{text}inter.broker.listener.name=IN\n")
    assert [(each.name, each.role) for each in made.listeners] == [("IN", "brokers"), ("OUT", "clients")]


def test_passwords_are_hidden(tmp_path, monkeypatch):
    no_files = SimpleNamespace(has_identity=False)
    monkeypatch.setattr(ClusterOptions, "zookeeper_security", lambda options: no_files)
    tls = "zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.password=hunter2\n"
    made = report(tmp_path, text=ZOOKEEPER + tls)
    assert "hunter2" not in repr(made)
    assert {each.name: each.value for each in made.options}["zookeeper_ssl_truststore_password"] == "<hidden>"


def test_an_address_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        made = report(tmp_path, text=f"listeners=PLAINTEXT://127.0.0.1:{port}\n")
    assert found(made, Kind.ERROR) == [
        f"listener PLAINTEXT: the broker cannot listen on 127.0.0.1:{port}: Address already in use."
    ]
    assert report(tmp_path, text=f"listeners=PLAINTEXT://127.0.0.1:{port}\n").would_start


def test_names_that_do_not_resolve(tmp_path):
    made = report(
        tmp_path, text="listeners=PLAINTEXT://127.0.0.1:0\nadvertised.listeners=PLAINTEXT://kafka.invalid:9092\n"
    )
    assert made.would_start
    (text,) = found(made, Kind.WARNING)
    assert text.startswith(
        "listener PLAINTEXT: clients are told to connect to kafka.invalid, which this machine cannot"
    )


def test_the_address_for_metrics(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        made = report(tmp_path, "--option", f"metrics_listen=127.0.0.1:{port}")
    (text,) = found(made, Kind.ERROR)
    assert text.startswith("metrics_listen: the broker cannot listen on 127.0.0.1")
    made = report(tmp_path, "--option", "metrics_listen=0.0.0.0:0")
    assert made.would_start
    assert any(each.startswith("metrics_listen: everyone who can reach") for each in found(made, Kind.UNSAFE))


def test_how_clients_log_in(tmp_path):
    made = report(tmp_path, text=f"listeners=A://localhost:0\nlistener.security.protocol.map=A:SASL_PLAINTEXT\n{LOGIN}")
    assert [each.logins for each in made.listeners] == [("SCRAM-SHA-512",)]


LOGIN = "listener.name.a.sasl.enabled.mechanisms=SCRAM-SHA-512\nlistener.name.a.scram-sha-512.sasl.jaas.config="
LOGIN += "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.mark.parametrize(
    ("text", "kind", "subject"),
    [
        ("listeners=PLAINTEXT://0.0.0.0:0", Kind.UNSAFE, "listener PLAINTEXT"),
        ("listeners=PLAINTEXT://localhost:0\nqueued.max.request.bytes=-1", Kind.UNSAFE, "queued.max.request.bytes"),
        ("listeners=PLAINTEXT://[::1]:0\nlog.cleaner.enable=false", Kind.WARNING, "log.cleaner.enable"),
        ("listeners=PLAINTEXT://localhost:0\nlog.retention.ms=-1", Kind.WARNING, "log.retention.ms"),
        (
            "listeners=PLAINTEXT://localhost:0\nnum.io.threads=8",
            Kind.WITHOUT_EFFECT,
            "server.properties:2: num.io.threads",
        ),
    ],
)
def test_findings_about_entries(tmp_path, text, kind, subject):
    made = report(tmp_path, text=text)
    (finding,) = [each for each in made.findings if each.kind in (kind, Kind.UNSAFE)]
    assert finding.kind is kind
    assert finding.subject.endswith(subject)
    assert finding.text.endswith(".")
    assert made.would_start


TLS = """
ssl.keystore.type=PEM
ssl.keystore.location={certificates.broker}
listener.security.protocol.map=A:{protocol}
listeners=A://0.0.0.0:0
sasl.enabled.mechanisms=PLAIN
listener.name.a.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="x";
listener.name.a.max.connections=5
"""


ANYBODY = "can read, write and delete everything, because the protocol SSL has no login, and no cert"
ON_THE_WAY = "everyone on the way can read what clients send to 0.0.0.0:0, passwords of PLAIN"
NO_AUTHORIZER = "every client that has logged in can read, write and delete everything: there is no authorizer."


@pytest.mark.parametrize(
    ("protocol", "more", "texts"),
    [
        ("SSL", "", [ANYBODY]),
        ("SSL", AUTHORIZER, ["can do what the ACLs allow User:ANONYMOUS, because"]),
        ("SSL", f"{AUTHORIZER}\nsuper.users=User:ANONYMOUS", [ANYBODY]),
        ("SSL", "listener.name.a.ssl.client.auth=required", [NO_AUTHORIZER]),
        ("SSL", f"listener.name.a.ssl.client.auth=required\n{AUTHORIZER}", []),
        ("SASL_SSL", "", [NO_AUTHORIZER]),
        ("SASL_SSL", AUTHORIZER, []),
        ("SASL_SSL", f"{AUTHORIZER}\nallow.everyone.if.no.acl.found=true", ["everyone may do anything with a topic"]),
        ("SASL_PLAINTEXT", "", [ON_THE_WAY, NO_AUTHORIZER]),
        ("SASL_PLAINTEXT", AUTHORIZER, [ON_THE_WAY]),
        ("PLAINTEXT", "ssl.client.auth=required", ["because the protocol PLAINTEXT has no encryption and no login."]),
    ],
)
def test_listeners_with_security(tmp_path, certificates, protocol, more, texts):
    made = report(tmp_path, text=TLS.format(certificates=certificates, protocol=protocol) + more)
    assert made.would_start, made.findings
    unsafe = found(made, Kind.UNSAFE)
    assert len(unsafe) == len(texts)
    assert all(text in each for text, each in zip(texts, unsafe, strict=True))
    shown = {each.name: each.value for each in made.options}
    assert shown["listener.name.a.max.connections"] == "5"
    assert shown["listener.name.a.plain.sasl.jaas.config"] == "<hidden>"


def test_limits_of_a_host_that_is_unknown(tmp_path, monkeypatch):
    def unknown(*arguments, **named):
        raise OSError("Name or service not known")

    made = report(tmp_path, "--option", "max.connections.per.ip.overrides=127.0.0.1:5")
    assert made.would_start
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    made = report(tmp_path, "--option", "max.connections.per.ip.overrides=nobody.invalid:5")
    (text,) = found(made, Kind.ERROR)
    assert text == "max.connections.per.ip.overrides: nobody.invalid: Name or service not known."


def test_retention_by_size_limits_a_log_too(tmp_path):
    text = "listeners=PLAINTEXT://localhost:0\nlog.retention.ms=-1\nlog.retention.bytes=1000000"
    assert not report(tmp_path, text=text).findings


def test_a_broker_without_files(tmp_path):
    made = report(tmp_path, data=None)
    assert made.folder is None
    (text,) = found(made, Kind.UNSAFE)
    assert text.startswith("--ephemeral: all records are kept in memory")


def test_root_and_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 1_024))
    made = report(tmp_path)
    assert found(made, Kind.UNSAFE) == ["user: the broker would run as root, but it needs no privileges."]
    (text,) = found(made, Kind.WARNING)
    assert text.startswith("open files: the process may have only 1024 files and connections open, 128 of them")


def status_of(capsys, *arguments: str) -> tuple[int, str]:
    return main(["broker", "--check", *arguments]), capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("num.partitions=no", ":1: num.partitions='no': expected an integer."),
        ("authorizer.class.name=a.B", "authorizer.class.name='a.B': this broker has the authorizers"),
        ("group.max.size=0", "group.max.size"),
        ("log.dirs=", "expected a folder"),
        ("max.connections.per.ip=0", "otherwise no client can connect"),
    ],
)
def test_a_configuration_that_is_refused(tmp_path, capsys, text, reason):
    path = tmp_path / "server.properties"
    path.write_text(text)
    status, out = status_of(capsys, "--data", str(tmp_path / "data"), "--config", str(path))
    assert status == 1
    assert reason in out
    assert out.endswith("The broker would not start.\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--config", "/no/such/file"], "/no/such/file"),
        (["--option", "port=1"], "port='1': no such option"),
        (["--option", "num.partition=1"], "did you mean num.partitions?\n"),
        (["--option", "listeners=TLS://127.0.0.1:0"], "no security protocol is defined for the listener TLS; "),
        (["--option", "broker.id=1"], "requires zookeeper.connect"),
        (["--listen", "nowhere"], "the port is missing"),
    ],
)
def test_arguments_that_are_refused(capsys, arguments, reason):
    status, out = status_of(capsys, "--ephemeral", *arguments)
    assert status == 1
    assert reason in out


def test_json(tmp_path, capsys):
    status, out = status_of(capsys, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--json")
    content = json.loads(out)
    assert status == 0
    assert content["would_start"] is True
    assert content["folder"]["path"] == str(tmp_path / "data")
    assert content["listeners"][0]["address"] == "127.0.0.1:0"


def test_options_that_no_listener_uses(tmp_path):
    """They are named even if only this machine can connect."""
    text = "listeners=PLAINTEXT://127.0.0.1:0\nssl.keystore.location=/x\nsuper.users=User:admin\nsuper.user=User:b\n"
    made = report(tmp_path, text=text)
    path = tmp_path / "server.properties"
    assert found(made, Kind.WITHOUT_EFFECT) == [
        f"{path}:2: ssl.keystore.location: no listener has a protocol with TLS, SSL or SASL_SSL, in "
        "listener.security.protocol.map.",
        f"{path}:3: super.users: there is no authorizer; authorizer.class.name configures one.",
        f"{path}:4: super.user: unknown configuration; did you mean super.users?",
    ]
    assert made.would_start
    (text,) = found(report(tmp_path, "--option", "sasl_enabled_mechanisms=PLAIN"), Kind.WITHOUT_EFFECT)
    assert text.startswith("sasl.enabled.mechanisms: no listener has a protocol with SASL")
