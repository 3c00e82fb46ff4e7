"""Every target of the fuzzer runs, reaches what it is for, and notices when the product goes wrong.

Method: a few hundred cases of each target must pass and must not all be refused; then one function of the product is
replaced by a wrong one, and the target has to say so.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.frames import FrameBuffer
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC_AT, Compression
from kafkawire.sdk.records import Batch, BatchBuilder, MessageSetBuilder, walk
from tools import fuzz_targets
from tools.fuzz import make_case, run_case
from tools.fuzz_targets import TARGETS, Case

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
    for case in Random(1).sample(inputs, CASES):
        assert TARGETS[name].check(case) is None


class LossyBuffer(FrameBuffer):
    """Loses the last frame of each piece."""

    def receive(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        return super().receive(data)[:-1]


def other_end(messages: object, data: bytes) -> tuple[object, int]:
    message, end = fuzz_targets.codec("RequestHeader", 1, "python").decode(data)
    return message, end + len(data)


def lossy_walk(data: bytes, *_: object, engine: str, **__: object) -> list[Batch]:
    """Find batches on one engine only."""
    return list(walk(data, check_crc=False)) if engine == "python" and len(data) % 2 else []


def fail(*_: object) -> None:
    raise IndexError("an error that bytes must not cause")


@pytest.mark.parametrize(
    ("name", "replaced", "by"),
    [
        ("codec", "_decoded", other_end),
        ("codec", "_decoded", fail),
        ("frames", "FrameBuffer", LossyBuffer),
        ("connection", "ServerConnection", fail),
        ("records", "walk", lossy_walk),
        ("records", "_viewed", lambda batch: [batch.position]),
        ("records", "_rows", lambda batch: []),
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


def test_construct_checks_a_part_of_the_cases() -> None:
    engines = [fuzz_targets._engines(Case("", bytes([index % 256, index // 256])), None) for index in range(2000)]
    assert 10 < sum("construct" in each for each in engines) < 100
    assert all("python" in each for each in engines)


def records_in(data: bytes) -> list[list[bytes | None]]:
    return [[record.value for record in batch.records()] for batch in walk(data)]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_content_is_replaced_inside_a_batch(magic: int, compression: Compression) -> None:
    """Damage reaches the records: checksum, size and compression fit whatever was put in."""
    if magic < 2 and compression in (Compression.NONE, Compression.ZSTD):
        return
    builder = BatchBuilder(compression=compression) if magic == 2 else MessageSetBuilder(magic, compression)
    builder.append(1, b"key", b"value")
    content = fuzz_targets._first_content(bytes(builder.build()))
    assert content is not None
    other = content.plain.replace(b"value", b"VALUE")
    damaged = content.in_batch(content.compressed(other, Compression.GZIP), Compression.GZIP)
    assert damaged[BATCH_MAGIC_AT] == magic
    assert records_in(damaged) == [[b"VALUE"]]


def test_sealing_reaches_every_whole_batch() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"value")
    old = MessageSetBuilder(1)
    old.append(1, None, b"value")
    damaged = (builder.build() + old.build() + builder.build()).replace(b"value", b"VALUE") + builder.build()[:-1]
    with pytest.raises(DecodeError, match="checksum"):
        records_in(damaged)
    partial = len(builder.build()) - 1
    sealed = fuzz_targets._resealed(damaged)
    with pytest.raises(PartialBatch, match=f"{partial} are left"):
        records_in(sealed)
    assert records_in(sealed[:-partial]) == [[b"VALUE"]] * 3
