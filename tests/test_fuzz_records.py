"""Damaged record sets reach the code that they are meant to test, and the targets notice faults in the product.

Method: replace one function of the product with a wrong one, which the target must report; read back the payloads and
checksums that the targets write.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC_AT, Compression
from kafkawire.sdk.records import Batch, BatchBuilder, MessageSetBuilder, walk
from kafkawire.sdk.records.produced import ProducedBatch, check_batch
from tests.needs import NATIVE_ENGINE
from tools import fuzz_records
from tools.fuzz import make_case, run_case
from tools.fuzz_targets import TARGETS

CASES = 300


def lossy_walk(data: bytes, *_: object, engine: str, **__: object) -> list[Batch]:
    """Find batches with only one engine."""
    return list(walk(data, check_crc=False)) if engine == "python" and len(data) % 2 else []


def other_count(data: bytes, *arguments: object, **keywords: object) -> ProducedBatch:
    """Accept a batch, but report a different number of records."""
    batch = check_batch(data, *arguments, **keywords)  # type: ignore[arg-type]  # passed on as they are
    return batch._replace(records_count=batch.records_count + 1)


def other_engine(data: bytes, *arguments: object, engine: str, **keywords: object) -> ProducedBatch:
    """Accept a batch, but report a different size with only one engine."""
    batch = check_batch(data, *arguments, engine=engine, **keywords)  # type: ignore[arg-type]  # passed on as they are
    return batch._replace(size_bytes=batch.size_bytes + (engine == "python"))


@pytest.mark.parametrize(
    ("name", "replaced", "by"),
    [
        ("records", "walk", lossy_walk),
        ("records", "_viewed", lambda batch: [batch.position]),
        ("records", "_rows", lambda batch: []),
        ("produced", "check_batch", other_count),
        pytest.param(
            *("produced", "check_batch", other_engine),
            marks=NATIVE_ENGINE.mark,
        ),
    ],
)
def test_wrong_product_is_noticed(
    name: str, replaced: str, by: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS[name]
    cases = [make_case(target, name, 1, index) for index in range(CASES)]
    monkeypatch.setattr(fuzz_records, replaced, by)
    assert any(run_case(target, case) is not None for case in cases)


def test_some_batches_pass() -> None:
    target = TARGETS["produced"]
    cases = [make_case(target, "produced", 1, index) for index in range(CASES)]
    passed = [case for case in cases if "refused" not in fuzz_records._checked(case.data, "python")]
    assert len(passed) > 10


def records_in(data: bytes) -> list[list[bytes | None]]:
    return [[record.value for record in batch.records()] for batch in walk(data)]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_content_is_replaced_inside_a_batch(magic: int, compression: Compression) -> None:
    """Damage reaches the records: checksum, size and compression match the damaged payload."""
    if magic < 2 and compression in (Compression.NONE, Compression.ZSTD):
        return
    builder = BatchBuilder(compression=compression) if magic == 2 else MessageSetBuilder(magic, compression)
    builder.append(1, b"key", b"value")
    content = fuzz_records._first_content(bytes(builder.build()))
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
    sealed = fuzz_records._resealed(damaged)
    with pytest.raises(PartialBatch, match=f"{partial} are left"):
        records_in(sealed)
    assert records_in(sealed[:-partial]) == [[b"VALUE"]] * 3
