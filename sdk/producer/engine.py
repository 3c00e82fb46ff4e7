"""The engine that `send` uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.producer.engines import selection as engines

__all__ = ["Appender", "Batch", "Delivery", "Topic", "are_plain"]

if TYPE_CHECKING or engines.native is None:
    from kafkawire.sdk.producer.engines.python import Appender, Batch, Delivery, Topic, are_plain
else:
    Appender = engines.native.Appender
    Batch = engines.native.Batch
    Delivery = engines.native.Delivery
    Topic = engines.native.Topic
    are_plain = engines.native.are_plain
