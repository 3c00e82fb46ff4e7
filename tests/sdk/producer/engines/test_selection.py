"""The environment selects the engine."""

from kafkawire.sdk.producer import engine
from kafkawire.sdk.producer.engines import python, selection
from kafkawire.sdk.protocol.engines.selection import ENGINE


def test_the_engine_in_use() -> None:
    if ENGINE == "native" and selection.native is not None:
        assert engine.Appender is selection.native.Appender
        assert engine.Delivery is selection.native.Delivery
    else:
        assert selection.native is None
        assert engine.Appender is python.Appender
        assert engine.Delivery is python.Delivery
