"""Producer, Consumer and Admin for programs without asyncio: the same methods, which block.

    from kafkawire.testing import Broker

    with Broker() as broker, Producer(broker.bootstrap) as producer:
        assert producer.send("orders", b"first").result().offset == 0

All I/O is done on a thread of each client, so that heartbeats and deliveries go on while the program does other things.
Ctrl-C ends every call at once, and loses no record.
"""

from __future__ import annotations

from kafkawire.sdk.sync.admin import Admin
from kafkawire.sdk.sync.consumer import Consumer
from kafkawire.sdk.sync.producer import Producer, Transaction

__all__ = ["Admin", "Consumer", "Producer", "Transaction"]
