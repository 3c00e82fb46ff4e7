"""A stand-in for a broker that starts in a tenth of the time: it reads its properties, listens, and lists brokers.

It answers ApiVersions and Metadata, and lists all brokers that have a properties file. The property `fake.fails` makes
it log a line and exit immediately with the given status; with `fake.hangs`, it neither listens nor reacts to SIGTERM.
In its first N Metadata responses, it lists only itself (`fake.alone=N`) or no brokers (`fake.unannounced=N`).
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
from pathlib import Path

__all__: list[str] = []

API_VERSIONS, METADATA = 18, 3

#: Requests in other versions of ApiVersions get this error, along with the supported versions.
UNSUPPORTED_VERSION = 35
SERVED = ((API_VERSIONS, 0, 0), (METADATA, 1, 1))


class Broker:
    """A stand-in with its properties."""

    def __init__(self, config: Path) -> None:
        lines = config.read_text("utf-8").replace("\\", "").splitlines()
        self.properties = dict(line.split("=", 1) for line in lines)
        self.id = int(self.properties.get("broker.id", "1"))
        files = [path for path in config.parent.glob("broker-*.properties") if config.name.startswith("broker-")]
        self.known = {int(path.stem.removeprefix("broker-")) for path in files} or {self.id}
        self.described = 0

    def body(self, api_key: int, version: int) -> bytes:
        """Return the body of a response."""
        if api_key == API_VERSIONS:
            error = UNSUPPORTED_VERSION if version else 0
            return struct.pack(">hi", error, len(SERVED)) + b"".join(struct.pack(">hhh", *each) for each in SERVED)
        self.described += 1
        known = {self.id} if self.described <= int(self.properties.get("fake.alone", "0")) else self.known
        if self.described <= int(self.properties.get("fake.unannounced", "0")):
            known = set()
        if known == self.known:
            print("it knows all", flush=True)
        brokers = b"".join(struct.pack(">ih1sih", each, 1, b"h", 1, -1) for each in sorted(known))
        return struct.pack(">i", len(known)) + brokers + struct.pack(">ii", self.id, 0)

    def serve(self, client: socket.socket) -> None:
        """Answer until the client disconnects."""
        with client, client.makefile("rb") as requests:
            while len(start := requests.read(12)) == 12:
                length, api_key, version, correlation_id = struct.unpack(">ihhi", start)
                requests.read(length - 8)
                response = struct.pack(">i", correlation_id) + self.body(api_key, version)
                client.sendall(struct.pack(">i", len(response)) + response)


def main() -> None:
    """Listen until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    broker = Broker(Path(sys.argv[sys.argv.index("--config") + 1]))
    properties = broker.properties
    if "fake.fails" in properties:
        print("it cannot go on", flush=True)
        sys.exit(int(properties["fake.fails"]))
    if "fake.hangs" in properties:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("it hangs", flush=True)
        while True:
            signal.pause()
    host, _, port = properties["listeners"].removeprefix("PLAINTEXT://").rpartition(":")
    server = socket.create_server((host, int(port)))
    while True:
        broker.serve(server.accept()[0])


if __name__ == "__main__":
    main()
