"""The broker of `kafkawire.testing` starts, survives being stopped and killed, and cleans up after itself.

Method: one test a promise, on real files and a free port.
"""

import socket
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
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


def test_listeners_with_their_addresses():
    with Broker(listeners="ONE://127.0.0.1:0,TWO://127.0.0.1:0") as broker:
        assert list(broker.addresses) == ["ONE", "TWO"]
        assert broker.addresses["ONE"] == broker.bootstrap != broker.addresses["TWO"]
        assert all(map(reachable, broker.addresses.values()))


def test_unknown_option(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unknown: dict[str, Any] = {"num_partition": 2}
    with pytest.raises(ConfigurationError, match="did you mean num_partitions"):
        Broker(**unknown)
    assert list(tmp_path.iterdir()) == []
