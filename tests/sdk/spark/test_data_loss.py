"""Lost data causes an error or a log line, and both say what was lost."""

from __future__ import annotations

import logging

import pytest

from kafkawire.sdk.errors import LocalProtocolError, NoOffset
from kafkawire.sdk.spark.data_loss import begins_later, report_loss


def test_error() -> None:
    cause = NoOffset("out of range")
    with pytest.raises(LocalProtocolError) as caught:
        report_loss("a-0 is gone", fails=True, cause=cause)
    assert str(caught.value) == "a-0 is gone; with failOnDataLoss=false the query continues"
    assert caught.value.__cause__ is cause


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafkawire.spark"):
        report_loss("a-0 is gone", fails=False)
    assert caplog.messages == ["lost: a-0 is gone"]


def test_words_for_a_beginning_that_is_gone() -> None:
    assert begins_later("a-0", 5, 10) == "a-0: offsets 5 to 9 are gone; the partition begins at 10"
    assert begins_later("a-0", 5, 10, 20) == "a-0: offsets 5 to 9 are gone; the partition begins at 10"
    assert begins_later("a-0", 5, 10, 8) == "a-0: offsets 5 to 7 are gone; the partition begins at 10"
