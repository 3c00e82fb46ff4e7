"""The fuzzer's targets for displaying stored records as lines, and records of internal topics as JSON.

Both engines must write identical lines and stop at the same position. Decoding an internal record must either produce a
message that has a JSON form, or raise `DecodeError`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import MessageBatch, walk
from kafkawire.sdk.records.engines import python_lines
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS, decode_record
from tools.fuzz_cases import Case, engines_of, vectors
from tools.mutation import mutate

__all__ = ["check_internal", "check_lines", "damage_internal", "internal_inputs"]

#: Maximum size of a damaged batch after decompression, in bytes; with more, the Python engine takes over a second.
_DECOMPRESSED_BYTES_MAX = 256 * 1024


def check_lines(case: Case) -> str | None:
    """Write the records of all batches as text and as JSON with every engine, and compare the lines."""
    for as_json in (False, True):
        found = {engine: _lines(engine, case.data, as_json) for engine in _engines(case)}
        if len(set(found.values())) > 1:
            return f"engines differ as {'JSON' if as_json else 'text'}: {found!r:.600}"
        ((text, _), *_) = found.values()
        for line in text.splitlines() if as_json else ():
            json.loads(line)
    return None


def _engines(case: Case) -> list[str]:
    return engines_of(case, engines.built, with_construct=False)


def _lines(engine: str, data: bytes, as_json: bool) -> tuple[bytes, str]:
    """Return the lines from one engine, and why it stopped."""
    built: Any = engines.built
    lines_class: Any = built.RecordLines if engine == "native" else python_lines.RecordLines
    out: list[bytes] = []
    lines = lines_class(out.append, as_json=as_json, with_gaps=True)
    error = ""
    try:
        for batch in walk(data, False, limit=_DECOMPRESSED_BYTES_MAX, engine=engine):
            if isinstance(batch, MessageBatch):
                for record, crc, _ in batch.checked_records():
                    lines.add_record(record, b"record", b"CreateTime", b',"crc":%d' % crc if as_json else b"")
            else:
                lines.add(batch, b"record", b"CreateTime")
    except DecodeError as caught:
        error = str(caught)
    lines.flush()
    return b"".join(out), error


def internal_inputs() -> list[Case]:
    """Return golden keys and values in Kafka's stored form, each with the topics that can contain it."""
    cases = []
    for name in ("coordinator", "metadata"):
        for vector in vectors(name):
            part = "value" if vector["type"] == "coordinator-value" else "key"
            kind = vector["api_key"] if part == "value" else ""
            cases += [
                Case(f"{topic} {part} {kind}".strip(), bytes.fromhex(vector["framed_hex"])) for topic in INTERNAL_TOPICS
            ]
    return cases


def damage_internal(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged key or value."""
    case, other = random.choice(inputs), random.choice(inputs)
    return Case(case.label, mutate(random, case.data, other.data))


def check_internal(case: Case) -> str | None:
    """Decode a key or a value, as its own type or as the counterpart in another topic."""
    topic, part, *kind = case.label.split()
    key = int(kind[0]).to_bytes(2, "big") + bytes(64) if part == "value" else case.data
    for given in (case.data, None):
        try:
            json.dumps(decode_record(topic, key, given).to_json())
        except DecodeError:
            continue
    return None
