"""The broker from `kafkawire.testing` starts, can restart after being stopped or killed, and cleans up after itself.

Method: test each promise separately, on real files and a free port.
"""

import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError, LocalProtocolError
from kafkawire.testing import Broker


def reachable(bootstrap):
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 10):
        return True


def test_temporary_directory_goes_with_the_broker():
    with Broker() as broker:
        assert reachable(broker.bootstrap)
        assert (broker.data_dir / "meta.properties").exists()
    assert not broker.data_dir.exists()


def test_a_broker_that_is_not_started_makes_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = Broker()
    broker.close()
    assert not broker.data_dir.exists()
    with broker:
        assert broker.data_dir.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == [broker.data_dir]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["pass", "broker.close()", "raise SystemExit(1)"])
def test_the_end_of_the_program_leaves_no_directory(tmp_path, end):
    """A child process that ends before its parent does not affect the broker, whether the child closes it or not."""
    program = f"""
import os
from kafkawire import sync
from kafkawire.testing import Broker
broker = Broker()
broker.start()
if not (child := os.fork()):
    {end}
else:
    os.waitpid(child, 0)
    with sync.Producer(broker.bootstrap) as producer:
        assert producer.send("t", b"a").result().offset == 0
    assert broker.data_dir.exists()
    print("the parent went on")
    {end}
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]  # later Pythons warn about forks
    ran = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, capture_output=True)
    assert (ran.stdout, ran.stderr) == ("the parent went on\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"port": 99_999}, "port=99999: expected 0 to 65535"),
        ({"port": -1}, "port=-1: expected 0 to 65535"),
        ({"port": "0"}, "port='0': expected an integer"),
        ({"host": None}, "host=None: expected a string"),
        ({"host": 5}, "host=5: expected a string"),
        ({"wall_ms": 5}, "wall_ms=5: expected a function"),
        ({"data_dir": ""}, "data_dir='': expected a folder path"),
        ({"data_dir": 5}, "data_dir=5: expected a folder path"),
    ],
)
def test_arguments_that_cannot_be(given: dict[str, Any], text: str):
    with pytest.raises(ConfigurationError, match=f"^{re.escape(text)}"):
        Broker(**given)


def test_clusters_are_loaded_when_used():
    """Few tests need a cluster, and a program may lack pytest, so both load lazily; an unknown name is refused."""
    program = """
import sys
from kafkawire import testing
assert not any(name.startswith("kafkawire.local_cluster") for name in sys.modules)
assert "pytest" not in sys.modules
assert testing.Cluster is testing.Cluster
assert "pytest" not in sys.modules
assert not hasattr(testing, "Clusters")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_given_directory_stays(tmp_path):
    with Broker(tmp_path / "data", num_partitions=2) as broker:
        assert reachable(broker.bootstrap)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_start_again_on_the_same_address(end):
    with Broker() as broker:
        bootstrap = broker.bootstrap
        getattr(broker, end)()
        broker.start()
        assert broker.bootstrap == bootstrap
        assert reachable(bootstrap)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_ephemeral(tmp_path, monkeypatch, end):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker(ephemeral=True) as broker, sync.Producer(broker.bootstrap) as producer:
        assert producer.send("t", b"a").result().offset == 0
        getattr(broker, end)()
        broker.start()
        assert producer.send("t", b"b").result().offset == 1
        with pytest.raises(LocalProtocolError, match="has no files"):
            _ = broker.data_dir
    assert list(tmp_path.iterdir()) == []


def test_ephemeral_has_a_limit():
    with (
        Broker(ephemeral=True, memory_disk_bytes=100_000) as broker,
        sync.Producer(broker.bootstrap, delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0) as producer,
    ):
        assert producer.send("t", bytes(10_000)).result().offset == 0
        with pytest.raises(KafkaWireError):
            producer.send("t", bytes(100_000)).result()


def test_ephemeral_with_a_folder(tmp_path):
    with pytest.raises(ConfigurationError, match="an ephemeral broker has no files"):
        Broker(tmp_path, ephemeral=True)


PLAIN = "ONE:PLAINTEXT,TWO:PLAINTEXT"


def test_a_listener_without_a_protocol():
    with pytest.raises(ConfigurationError, match="no security protocol is defined for the listener TWO"):
        Broker(listeners="ONE://127.0.0.1:0,TWO://127.0.0.1:0", listener_security_protocol_map="ONE:PLAINTEXT,TOW:SSL")


def test_listeners_with_their_addresses():
    with Broker(listeners="ONE://127.0.0.1:0,TWO://127.0.0.1:0", listener_security_protocol_map=PLAIN) as broker:
        assert list(broker.addresses) == ["ONE", "TWO"]
        assert broker.addresses["ONE"] == broker.bootstrap != broker.addresses["TWO"]
        assert all(map(reachable, broker.addresses.values()))


def test_unknown_option(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unknown: dict[str, Any] = {"num_partition": 2}
    with pytest.raises(ConfigurationError, match="did you mean num_partitions"):
        Broker(**unknown)
    assert list(tmp_path.iterdir()) == []


def test_second_start_is_refused_and_the_broker_goes_on():
    with Broker() as broker:
        bootstrap = broker.bootstrap
        with pytest.raises(LocalProtocolError, match="already running"):
            broker.start()
        assert broker.bootstrap == bootstrap
        assert reachable(bootstrap)
    assert not broker.data_dir.exists()
    with pytest.raises(OSError, match="refused"):
        reachable(bootstrap)


def test_one_of_several_starts_at_once_succeeds():
    before = set(threading.enumerate())
    broker = Broker()
    with ThreadPoolExecutor(4) as threads:
        errors = [started.exception(60) for started in [threads.submit(broker.start) for _ in range(4)]]
    assert [type(error) for error in errors if error is not None] == [LocalProtocolError] * 3
    assert reachable(broker.bootstrap)
    broker.close()
    assert set(threading.enumerate()) <= before


def test_kill_while_it_stops():
    with Broker() as broker:
        for _ in range(5):
            with ThreadPoolExecutor(4) as threads:
                for ended in [threads.submit(end) for end in (broker.stop, broker.kill, broker.kill, broker.stop)]:
                    assert ended.exception(60) is None
            broker.start()
            assert reachable(broker.bootstrap)
