"""A reserved port is free, is given to no one else, and can be released.

Method: make reservations in this process, whose locks exclude one another just as those of two processes would.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kafkawire.local_cluster import port_reservation
from kafkawire.local_cluster.cluster_folder import ClusterError
from kafkawire.local_cluster.port_reservation import PORTS, reserve_free_port, reserve_port


def test_a_port_has_one_holder() -> None:
    held = reserve_free_port()
    assert held.port in PORTS
    with pytest.raises(ClusterError, match=f"port {held.port} on 127.0.0.1 is used by another program"):
        reserve_port(held.port)
    held.close()
    held.close()
    again = reserve_port(held.port)
    assert again.port == held.port
    again.close()


def test_a_port_on_which_a_program_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    held = reserve_free_port()
    held.close()
    monkeypatch.setattr(port_reservation, "PORTS", range(held.port, held.port + 1))
    with socket.create_server(("127.0.0.1", held.port)):
        with pytest.raises(ClusterError, match="another program"):
            reserve_port(held.port)
        with pytest.raises(ClusterError, match=f"no port between {held.port} and {held.port} is free"):
            reserve_free_port()


def test_ports_are_outside_of_what_the_kernel_gives_away() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert PORTS.stop <= lowest
