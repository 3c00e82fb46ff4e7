"""Every target of the fuzzer runs, reaches the code that it is meant to test, and notices faults in the product.

Method: run a few hundred cases of each target, which must pass without all being refused; then replace one function of
the product with a wrong one, which the target must report.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kafkawire.sdk.protocol.frames import FrameBuffer
from tools import fuzz_targets
from tools.fuzz import make_case, run_case
from tools.fuzz_targets import TARGETS

CASES = 300


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_cases_pass(name: str) -> None:
    target = TARGETS[name]
    cases = [make_case(target, name, 1, index) for index in range(CASES)]
    assert [(case, found) for case in cases if (found := run_case(target, case)) is not None] == []
    assert len({case.data for case in cases}) > CASES * 0.9


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_undamaged_inputs_pass(name: str) -> None:
    inputs = TARGETS[name].inputs()
    for case in Random(1).sample(inputs, min(CASES, len(inputs))):
        assert TARGETS[name].check(case) is None


class LossyBuffer(FrameBuffer):
    """Loses the last frame of each piece."""

    def receive(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        return super().receive(data)[:-1]


def other_end(messages: object, data: bytes) -> tuple[object, int]:
    message, end = fuzz_targets.codec("RequestHeader", 1, "python").decode(data)
    return message, end + len(data)


def fail(*_: object) -> None:
    raise IndexError("an error that bytes must not cause")


@pytest.mark.parametrize(
    ("name", "replaced", "by"),
    [
        ("codec", "_decoded", other_end),
        ("codec", "_decoded", fail),
        ("frames", "FrameBuffer", LossyBuffer),
        ("connection", "ServerConnection", fail),
    ],
)
def test_wrong_product_is_noticed(
    name: str, replaced: str, by: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS[name]
    cases = [make_case(target, name, 1, index) for index in range(CASES)]
    monkeypatch.setattr(fuzz_targets, replaced, by)
    assert any(run_case(target, case) is not None for case in cases)


def test_nan_equals_itself() -> None:
    assert fuzz_targets._same((float("nan"), [1.0]), (float("nan"), (1.0,)))
    assert not fuzz_targets._same((float("nan"),), (0.0,))
