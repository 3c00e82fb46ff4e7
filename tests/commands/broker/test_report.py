"""The report of `kafkawire broker --check` as text for people and as JSON for programs.

Method: write one report with everything in it and one with nothing, and compare whole texts.
"""

from __future__ import annotations

import json

from kafkawire.commands.broker.findings import Finding, FolderFacts, Kind, ListenerFacts, OptionFacts, Report
from kafkawire.commands.broker.report import as_json, as_text

FULL = Report(
    "cluster",
    7,
    "zk:2181",
    (
        ListenerFacts("IN", "PLAINTEXT", "127.0.0.1:9093", "127.0.0.1:9093", "brokers"),
        ListenerFacts("OUT", "SASL_SSL", "0.0.0.0:9092", "kafka:9092", "clients", ("PLAIN", "SCRAM-SHA-512")),
    ),
    FolderFacts("/data", True, "7", "abc", 2, 4, False, 1024**3, 2 * 1024**3),
    1024,
    (OptionFacts("node_id", "node.id", "7", "1"), OptionFacts("advertised_host", None, "kafka", "")),
    (
        Finding(Kind.ERROR, "f:1: x", "f:1: x='1': expected y."),
        Finding(Kind.UNSAFE, "listener OUT", "it is\x1b[2J open."),
        Finding(Kind.WITHOUT_EFFECT, "f:2: z", "no such thing."),
    ),
)

TEXT = """\
Broker 7: in the cluster of ZooKeeper at zk:2181, which was not contacted
Listeners:
  IN: PLAINTEXT on 127.0.0.1:9093, for brokers
  OUT: SASL_SSL with PLAIN or SCRAM-SHA-512 on 0.0.0.0:9092, advertised as kafka:9092, for clients
Files: /data: 2 topics, 4 partitions; broker 7 of cluster abc, not stopped cleanly; 1.0 of 2.0 GiB free
Limit on open files and connections: 1024
Options that differ from the defaults:
  node.id = 7 (default: 1)
  advertised_host = kafka (default: none)
Errors, because of which the broker would not start:
  f:1: x='1': expected y.
Unsafe:
  listener OUT: it is\\x1b[2J open.
Options without effect:
  f:2: z: no such thing.
The broker would not start.
"""


def test_text():
    assert as_text(FULL) == TEXT


def test_text_of_a_new_broker():
    folder = FolderFacts("/data", False)
    report = Report("standalone", 1, None, (), folder, 1024, (), ())
    assert as_text(report) == (
        "Broker 1: standalone\nListeners:\nFiles: /data, which the start creates\n"
        "Limit on open files and connections: 1024\nThe broker would start.\n"
    )
    other = report._replace(node_id=None, zookeeper="zk", folder=folder._replace(exists=True))
    assert as_text(other).startswith("Broker whose id the folder or the cluster determines: in the cluster")
    assert "Files: /data, without a broker's files\n" in as_text(other)


def test_json_has_every_fact():
    content = json.loads(as_json(FULL))
    assert content["findings"][1] == {"kind": "unsafe", "subject": "listener OUT", "text": "it is\x1b[2J open."}
    assert content["folder"]["was_clean"] is False
    assert content["options"][0] == {"name": "node_id", "kafka_name": "node.id", "value": "7", "default": "1"}
    assert content["would_start"] is False
