"""Producer, Consumer, ShareConsumer and Admin for programs without asyncio. They have the same methods, which block.

    from kafkawire.testing import Broker

    with Broker() as broker, Producer(broker.bootstrap) as producer:
        assert producer.send("orders", b"first").result().offset == 0

Each client does its I/O on its own thread, so heartbeats and deliveries continue while the program does other things.
Ctrl-C interrupts any call immediately, and loses no records.
"""

from __future__ import annotations

from typing import Never

from kafkawire.sdk.sync.admin import Admin
from kafkawire.sdk.sync.consumer import Consumer
from kafkawire.sdk.sync.producer import Producer, Transaction
from kafkawire.sdk.sync.share_consumer import ShareConsumer, ShareDelivery

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer", "ShareDelivery", "Transaction"]


def __getattr__(name: str) -> Never:
    """Raise an error that suggests kafkawire's name for another client's name."""
    from kafkawire.sdk.client.name_hints import missing  # only needed to report an error

    raise missing(__name__, name)
