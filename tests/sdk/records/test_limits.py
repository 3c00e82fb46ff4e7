"""Every function's default limits are those in `limits`.

Method: compare the defaults in the signatures; the tests of the code that applies a limit cover the behaviour at the
limit.
"""

from __future__ import annotations

import inspect

from kafkawire.sdk.records import decompress, limits, walk
from kafkawire.sdk.records.engines.python_batch import RecordBatch
from kafkawire.sdk.records.engines.python_builder import BatchBuilder

#: The default of Kafka's `socket.request.max.bytes`.
SOCKET_REQUEST_MAX_BYTES = 104857600


def test_defaults() -> None:
    for function in (walk, decompress, RecordBatch):
        assert inspect.signature(function).parameters["limit"].default == limits.MAX_DECOMPRESSED_BYTES
    assert inspect.signature(BatchBuilder).parameters["limit_bytes"].default == limits.DEFAULT_BATCH_BYTES
    assert 64 * 1024 <= limits.DEFAULT_BATCH_BYTES <= 256 * 1024
    assert limits.MAX_DECOMPRESSED_BYTES == SOCKET_REQUEST_MAX_BYTES
