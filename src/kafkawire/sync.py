"""Producer, Consumer and Admin for programs without asyncio: the same methods, which block.

    from kafkawire.testing import Broker

    with Broker() as broker, Producer(broker.bootstrap) as producer:
        assert producer.send("orders", b"first").result().offset == 0

Each client does its I/O on a thread of its own, so heartbeats and deliveries continue while the program does other
things. Ctrl-C ends any call at once, and loses no record.
"""

from __future__ import annotations

from kafkawire.sdk.sync.admin import Admin
from kafkawire.sdk.sync.consumer import Consumer
from kafkawire.sdk.sync.producer import Producer, Transaction

__all__ = ["Admin", "Consumer", "Producer", "Transaction"]
