"""A stand-in for a broker, which starts in a tenth of the time: it reads its properties, listens, and answers nobody.

The property `fake.fails` has it end at once with this exit status, after a line in its log; `fake.hangs` has it neither
listen nor take SIGTERM.
"""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

__all__: list[str] = []


def main() -> None:
    """Listen until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    lines = Path(sys.argv[sys.argv.index("--config") + 1]).read_text("utf-8").replace("\\", "").splitlines()
    properties = dict(line.split("=", 1) for line in lines)
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
        server.accept()[0].close()


if __name__ == "__main__":
    main()
