"""The ids of consumers and their threads have Kafka's format.

Method: check ids that Kafka's consumer has registered, numbers at their limits, and malformed texts.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.registry.consumer_ids import ConsumerThread, new_consumer_id

MEMBER = "old2_vm-1795881657790-47cd2b34"


def test_an_id_of_kafka() -> None:
    assert new_consumer_id("old2", "vm", 1795881657790, 0x47CD2B34_0000_4000) == MEMBER


@pytest.mark.parametrize(
    ("random_bits", "end"),
    [(0, "-0"), (0xABC, "-abc"), ((1 << 64) - 1, "-ffffffff"), (1 << 64 | 0x12, "-12"), (-1, "-ffffffff")],
)
def test_random_bits(random_bits: int, end: str) -> None:
    assert new_consumer_id("g", "h", 5, random_bits) == f"g_h-5{end}"


@pytest.mark.parametrize("number", [0, 7, 10, 2**31 - 1])
def test_a_thread(number: int) -> None:
    thread = ConsumerThread(MEMBER, number)
    assert str(thread) == f"{MEMBER}-{number}"
    assert ConsumerThread.parse(str(thread)) == thread


@pytest.mark.parametrize(
    "text", ["", "x", "-1", f"{MEMBER}-", f"{MEMBER}-01", f"{MEMBER}-{2**31}", f"{MEMBER}-x", "a-٣"]
)
def test_a_text_without_a_thread(text: str) -> None:
    with pytest.raises(ValueError, match="does not end with a hyphen and a thread number"):
        ConsumerThread.parse(text)


def test_the_text_in_an_error_is_cut() -> None:
    with pytest.raises(ValueError, match=r"^'x{60}' does"):
        ConsumerThread.parse("x" * 1000)
