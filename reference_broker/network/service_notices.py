"""Tell the service manager when the broker is ready and when it stops, if it asked for that.

Source: systemd, sd_notify(3).
"""

from __future__ import annotations

import os
import socket

__all__ = ["READY", "STOPPING", "notify"]

READY = "READY=1"
STOPPING = "STOPPING=1"

_ENVIRONMENT = "NOTIFY_SOCKET"


def notify(*notices: str) -> None:
    """Send notices to the service manager; do nothing if there is none, or if it does not listen.

    Args:
        notices: `READY`, `STOPPING`, or others of sd_notify.
    """
    path = os.environ.get(_ENVIRONMENT, "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # an abstract address begins with a zero byte
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)  # the broker has clients that wait
            manager.sendto("\n".join(notices).encode(), address)
    except OSError:
        pass
