"""The stand-in for a refused stream raises the original error and no other, whichever call comes first."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyspark.sql.datasource", reason="pyspark is not installed: the extra `spark` brings it")

from pyspark.sql.datasource import InputPartition

from kafkawire.sdk.spark.refused_stream import RefusedStream


@pytest.mark.parametrize(
    "call",
    [
        lambda reader: reader.initialOffset(),
        lambda reader: reader.latestOffset({}, None),
        lambda reader: reader.partitions({}, {}),
        lambda reader: reader.read(InputPartition(0)),
    ],
)
def test_calls(call: Callable[[Any], object]) -> None:
    try:
        raise ConfigurationError("mode", "x", "no such mode")
    except ConfigurationError as error:
        reader = RefusedStream(error)
    with pytest.raises(ConfigurationError, match="mode='x': no such mode") as caught:
        call(reader)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename.endswith("refused_stream.py")
    assert len([frame for frame in frames if frame.name == "test_calls"]) == 1
    reader.stop()
