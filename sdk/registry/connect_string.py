"""The text that locates a ZooKeeper ensemble: its servers, and the chroot, the node to which all paths are relative.

Source: `ConnectStringParser` in Apache ZooKeeper; `zookeeper.connect` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.paths import path_problem

__all__ = ["parse_connect"]


def parse_connect(name: str, connect: str) -> tuple[str, str]:
    """Return the servers and the chroot; the chroot is empty if there is none.

    Args:
        name: the name of the option, for the error.
        connect: `host:port,host:port/chroot`.

    Raises:
        ConfigurationError: the text does not have this form.
    """
    hosts, slash, chroot = connect.partition("/")
    chroot = f"/{chroot}" if slash and chroot else ""
    problem = path_problem(chroot) if chroot else None
    if problem is not None:
        raise ConfigurationError(name, connect, f"the chroot {chroot!r}: {problem}")
    for server in hosts.split(","):
        host, colon, port = server.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65_536
        is_address = host.startswith("[") and host.endswith("]") and ":" in host
        is_host = bool(host) and (is_address or not any(each in host for each in "[]:"))
        if not colon or not is_host or not is_port:
            raise ConfigurationError(name, connect, f"expected host:port, got {server.strip()!r}")
    return ",".join(server.strip() for server in hosts.split(",")), chroot
