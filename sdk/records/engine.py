"""The record engine in use, and access to the other engines by name; those are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.records.engines import selection as engines

__all__ = ["BatchBuilder", "RecordBatch", "batch_builder_class", "record_batch_class"]

if TYPE_CHECKING or engines.native is None:
    from kafkawire.sdk.records.engines.python_batch import RecordBatch
    from kafkawire.sdk.records.engines.python_builder import BatchBuilder

    if not TYPE_CHECKING and ENGINE == "construct":
        from kafkawire.sdk.records.engines.construct import ConstructBatch as RecordBatch
else:
    BatchBuilder = engines.native.BatchBuilder
    RecordBatch = engines.native.RecordBatch


def record_batch_class(engine: str) -> type[RecordBatch]:
    """Return the `RecordBatch` of an engine.

    Args:
        engine: `native`, `python` or `construct`.

    Raises:
        LocalProtocolError: the engine is not available here.
    """
    if engine == "native" and engines.built is not None:
        return cast(type[RecordBatch], engines.built.RecordBatch)
    if engine == "python":
        from kafkawire.sdk.records.engines import python_batch

        return python_batch.RecordBatch
    if engine == "construct":
        from kafkawire.sdk.records.engines.construct import ConstructBatch

        return ConstructBatch
    raise _unavailable(engine)


def batch_builder_class(engine: str) -> type[BatchBuilder]:
    """Return the `BatchBuilder` of an engine; `construct` only reads, so it borrows the one of `python`.

    Args:
        engine: `native`, `python` or `construct`.

    Raises:
        LocalProtocolError: the engine is not available here.
    """
    if engine == "native" and engines.built is not None:
        return cast(type[BatchBuilder], engines.built.BatchBuilder)
    if engine in ("python", "construct"):
        from kafkawire.sdk.records.engines import python_builder

        return python_builder.BatchBuilder
    raise _unavailable(engine)


def _unavailable(engine: str) -> LocalProtocolError:
    available = [name for name in ENGINES if name != "native" or engines.built is not None]
    return LocalProtocolError(f"engine {quoted(engine)} is not available; available engines: {', '.join(available)}")
