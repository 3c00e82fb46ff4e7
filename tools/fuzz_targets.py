"""What `tools/fuzz.py` feeds with damaged bytes, and what must hold whatever the bytes are.

A target makes cases of the golden vectors and checks one at a time. A check depends on the case alone, even where it
cuts or samples, so a failed case fails again. It returns what is wrong; any exception it raises is a finding too.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from kafkawire.sdk.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.connection import ClientConnection, ServerConnection
from kafkawire.sdk.protocol.engines import selection as codec_engine
from kafkawire.sdk.protocol.frames import FrameBuffer, FrameTooLarge, frame
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BATCH_LENGTH_AT,
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_ATTRIBUTES_AT,
    MESSAGE_V0_CRC_AT,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MAGIC,
    MESSAGE_V1_HEADER_BYTES,
    Compression,
)
from kafkawire.sdk.records import Batch, compress, crc32c, decompress, walk
from kafkawire.sdk.records.engines import python_batch
from kafkawire.sdk.records.engines import selection as records_engine
from tools.mutation import mutate

__all__ = ["TARGETS", "Case", "Target"]

VECTORS = Path(__file__).parent.parent / "conformance" / "vectors"

#: One case in this many also runs on the construct engine, which takes a hundred times as long as the others.
CONSTRUCT_EVERY = 50

#: Largest frame in the checks of frames: mutated lengths fall on both sides of it.
FRAME_BYTES_MAX = 1024

_FRAMES_OF_A_STREAM_MAX = 5


class Case(NamedTuple):
    """One input.

    Attributes:
        label: what the bytes are taken for, as the target's check reads it.
        data: the bytes.
    """

    label: str
    data: bytes


class Target(NamedTuple):
    """One place where bytes from outside come in.

    Attributes:
        inputs: gives the undamaged inputs; called once.
        damage: makes a case of them.
        check: returns what is wrong with what the product does, or None.
    """

    inputs: Callable[[], Sequence[Case]]
    damage: Callable[[Random, Sequence[Case]], Case]
    check: Callable[[Case], str | None]


# --- the message codecs -----------------------------------------------------------------------------------------------

_MESSAGE_FILES = ("requests", "responses", "headers", "data", "coordinator", "metadata", "corrupt")


def message_inputs() -> list[Case]:
    """Return the golden messages, and those that the vectors damaged already."""
    cases = []
    for name in _MESSAGE_FILES:
        for vector in _vectors(name):
            if vector.get("target") != "records" and vector.get("kind") != "unsupported-version":
                cases.append(Case(f"{vector['name']} {vector['version']}", bytes.fromhex(vector["hex"])))
    return cases


def damage_message(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged message, sometimes as the bytes of another message or version."""
    case, other = random.choice(inputs), random.choice(inputs)
    label = other.label if random.random() < 0.05 else case.label
    return Case(label, mutate(random, case.data, other.data))


def check_message(case: Case) -> str | None:
    """Decode on every engine to the same message or the same error, and encode what was decoded."""
    name, version = case.label.split()
    codecs = [codec(name, int(version), engine) for engine in _engines(case, codec_engine.native)]
    answers = [_decoded(each, case.data) for each in codecs]
    for each, answer in zip(codecs[1:], answers[1:], strict=True):
        if not _same(answer, answers[0]):
            return f"{codecs[0].engine} gives {answers[0]!r}, {each.engine} {answer!r}"
    message, end = answers[0]
    if not isinstance(message, Message):
        return None
    if not 0 <= end <= len(case.data):
        return f"the message ends at byte {end} of {len(case.data)}"
    encodings = [_encoded(each, answer[0]) for each, answer in zip(codecs, answers, strict=True)]
    for each, encoding in zip(codecs[1:], encodings[1:], strict=True):
        if encoding != encodings[0]:
            return f"{codecs[0].engine} encodes {encodings[0]!r}, {each.engine} {encoding!r}"
    if isinstance(encodings[0], bytes):
        for each in codecs:
            again = _decoded(each, encodings[0])
            if not _same(again, (message, len(encodings[0]))):
                return f"{message!r} is {again!r} after encoding and decoding on {each.engine}"
    return None


def _decoded(messages: Codec[Message], data: bytes) -> tuple[Any, Any]:
    """Return the message and its end, or path and offset of the error."""
    try:
        return messages.decode(data)
    except DecodeError as error:
        return error.path, error.offset
    except Exception as error:
        error.add_note(f"decoding with {messages}")
        raise


def _encoded(messages: Codec[Message], message: Message) -> bytes | tuple[str, str]:
    """Return the encoding, or class and text of the error."""
    try:
        encoded = messages.encode(message)
        parts = b"".join(messages.encode_parts(message))
    except LocalProtocolError as error:
        return type(error).__name__, str(error)
    except Exception as error:
        error.add_note(f"encoding with {messages}")
        raise
    if parts != encoded:
        raise AssertionError(f"{messages} encodes {encoded.hex()}, in parts {parts.hex()}")
    return encoded


def _same(left: object, right: object) -> bool:
    """Compare values as their bytes compare: other than in Python, a NaN equals itself."""
    return left == right or _comparable(left) == _comparable(right)


def _comparable(value: Any) -> Any:
    if isinstance(value, Message):
        return type(value), [_comparable(getattr(value, name)) for name in value.__match_args__]
    if isinstance(value, list | tuple):
        return [_comparable(element) for element in value]
    return struct.pack(">d", value) if isinstance(value, float) else value


# --- frames -----------------------------------------------------------------------------------------------------------


def frame_inputs() -> list[Case]:
    """Return whole requests and responses, each with its length in front."""
    return [Case("stream", bytes.fromhex(vector["hex"])) for vector in _vectors("frames")]


def damage_stream(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged stream of a few frames."""
    stream = b"".join(random.choice(inputs).data for _ in range(random.randint(1, _FRAMES_OF_A_STREAM_MAX)))
    return Case("stream", mutate(random, stream, random.choice(inputs).data))


def check_stream(case: Case) -> str | None:
    """Receive the stream whole and in pieces: the same frames, or the same refusal after the same frames."""
    random = Random(case.data)
    cuts = sorted(random.randrange(len(case.data) + 1) for _ in range(random.randrange(8)))
    pieces = [case.data[start:end] for start, end in zip([0, *cuts], [*cuts, len(case.data)], strict=True)]
    frames, refused = _received([case.data[at : at + 1] for at in range(len(case.data))])
    for chunks in (pieces, [case.data]):
        same_frames, same_refused = _received(chunks)
        # The piece that brings a length that is refused gives none of the frames before it.
        expected = frames[: len(same_frames)] if refused else frames
        if (same_frames, same_refused) != (expected, refused):
            return f"{len(same_frames)} frames in pieces of {list(map(len, chunks))} bytes, {len(frames)} byte by byte"
    if not case.data.startswith(b"".join(map(frame, frames))):
        return f"{len(frames)} frames that are not in the stream"
    return None


def _received(pieces: Sequence[bytes]) -> tuple[list[bytes], bool]:
    """Return the frames, and whether a length was refused."""
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    frames: list[bytes] = []
    for piece in pieces:
        try:
            frames += buffer.receive(piece)
        except FrameTooLarge:
            return frames, True
    return frames, False


# --- connections ------------------------------------------------------------------------------------------------------

_SUPPORTED = {key: APIS[key].versions for key in APIS}


def connection_inputs() -> list[Case]:
    """Return the content of whole requests and responses, the latter as answers to the first request."""
    cases = []
    for vector in _vectors("frames"):
        content = bytes.fromhex(vector["hex"])[4:]
        if vector["type"] == "request":
            cases.append(Case("request", content))
        elif _asked(ApiKey(vector["api_key"]), vector["version"]) is not None:
            cases.append(Case(f"response {vector['api_key']} {vector['version']}", bytes(4) + content[4:]))
    return cases


def damage_content(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged frame, a response mostly with the correlation id that is waited for."""
    case, other = random.choice(inputs), random.choice(inputs)
    if random.random() < 0.1:
        return Case(case.label, mutate(random, case.data, other.data))
    # What comes first names the message; damage to it hides the rest.
    kept = random.choice((4, 8)) if case.label == "request" else 4
    return Case(case.label, case.data[:kept] + mutate(random, case.data[kept:], other.data))


def check_content(case: Case) -> str | None:
    """Receive the frame on the side that it is for: a message, or an error of the peer."""
    if case.label == "request":
        connection = ServerConnection(_SUPPORTED)
        try:
            request = connection.receive(case.data)
        except RemoteProtocolError:
            return None if connection.pending == 0 else "a refused request is pending"
        return None if request.version_error or isinstance(request.message, Message) else "a request without a message"
    _, key, version = case.label.split()
    client = _asked(ApiKey(int(key)), int(version))
    assert client is not None
    try:
        received = client.receive(case.data)
    except RemoteProtocolError:
        return None
    if not 0 <= received.unread_bytes <= len(case.data):
        return f"{received.unread_bytes} bytes of {len(case.data)} were not read"
    return None


def _asked(key: ApiKey, version: int) -> ClientConnection | None:
    """Return a client that waits for the response to one request, None if the request needs more than defaults."""
    client = ClientConnection()
    try:
        client.request(message_class(f"{APIS[key].name}Request")(), version)
    except LocalProtocolError:
        return None
    return client


# --- records ---------------------------------------------------------------------------------------------------------

#: Most bytes of the decompressed records of a batch in these checks: the vectors stay below it, bombs do not.
DECOMPRESSED_BYTES_MAX = 1 << 20


def record_inputs() -> list[Case]:
    """Return the golden record sets, and those that the vectors damaged already."""
    vectors = [*_vectors("record_batches"), *(each for each in _vectors("corrupt") if each["target"] == "records")]
    return [Case("checked", bytes.fromhex(vector["hex"])) for vector in vectors if "hex" in vector]


def damage_records(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged record set, mostly with checksums that fit so that the damage is not found by them."""
    data, other = random.choice(inputs).data, random.choice(inputs).data
    label = random.choice(("checked", "checked", "unchecked"))
    if random.random() < 0.1:
        return Case(label, mutate(random, data, other))
    if random.random() < 0.4:
        return Case(label, _resealed(mutate(random, data, other)))
    content = _first_content(data)
    if content is None:
        return Case(label, _resealed(mutate(random, data, other)))
    damaged = mutate(random, content.plain, other)
    compression = random.choice((content.compression, *Compression))
    if random.random() < 0.2:
        return Case(label, content.in_batch(mutate(random, content.compressed(damaged, compression)), compression))
    return Case(label, content.in_batch(content.compressed(damaged, compression), compression))


def check_records(case: Case) -> str | None:
    """Walk on every engine: the same batches with the same records, or the same errors at the same places."""
    engines = _engines(case, records_engine.native)
    answers = [_walked(case, engine) for engine in engines]
    for engine, answer in zip(engines[1:], answers[1:], strict=True):
        for number, (left, right) in enumerate(zip_longest(answers[0], answer)):
            if left != right:
                return f"step {number}: {engines[0]} gives {left!r}, {engine} {right!r}"
    return None


def _walked(case: Case, engine: str) -> list[tuple[Any, ...]]:
    """Return what comes out of a walk: header and records of each batch, or the place of an error instead."""
    found: list[tuple[Any, ...]] = []
    try:
        for batch in walk(case.data, case.label == "checked", limit=DECOMPRESSED_BYTES_MAX, engine=engine):
            found.append(tuple(_answer(partial(getattr, batch, name)) for name in _BATCH_ATTRIBUTES))
            records, views, rows = _answer(batch.records), list(_viewed(batch)), _answer(partial(_rows, batch))
            found += [("records", records), ("views", views), ("columns", rows)]
            if isinstance(records, list):
                if views != records:
                    raise AssertionError(f"the views are {views!r}, the records {records!r}")
                if rows != [(each.offset, each.timestamp, each.key, each.value) for each in records]:
                    raise AssertionError(f"the columns hold {rows!r}, the records are {records!r}")
    except DecodeError as error:
        found.append(("error", error.path.split(".")[0], error.offset))
    except Exception as error:
        error.add_note(f"walking on {engine}")
        raise
    return found


#: What batches of all magics have.
_BATCH_ATTRIBUTES = (
    "position", "size_in_bytes", "magic", "crc", "attributes", "base_offset", "last_offset", "next_offset",
    "max_timestamp", "compression", "timestamp_type", "producer_id", "producer_epoch", "base_sequence",
    "last_sequence", "is_transactional", "is_control", "delete_horizon_ms", "partition_leader_epoch",
    "records_count",
)  # fmt: skip


def _answer(ask: Callable[[], Any]) -> Any:
    """Return a value, or path and offset of the error; the construct form alone says which field of a record it is."""
    try:
        return ask()
    except DecodeError as error:
        return error.path.split(".")[0], error.offset


def _rows(batch: Batch) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return the rows of the columns of a batch."""
    columns = batch.columns()
    numbers = memoryview(columns.offsets).cast("q"), memoryview(columns.timestamps).cast("q")
    contents = ([column.at(index) for index in range(columns.count)] for column in (columns.keys, columns.values))
    return list(zip(*numbers, *contents, strict=True))


def _viewed(batch: Batch) -> Iterator[object]:
    """Give the records one after the other, and in the end path and offset of the error if there is one."""
    try:
        yield from batch.views()
    except DecodeError as error:
        yield error.path.split(".")[0], error.offset


class _Content(NamedTuple):
    """The decompressed records of a batch or a wrapper, and the header that goes before them."""

    header: bytes
    magic: int
    compression: Compression
    plain: bytes

    def compressed(self, plain: bytes, compression: Compression) -> bytes:
        """Return other records as they stand in a batch."""
        return compress(compression, plain, magic=self.magic)

    def in_batch(self, content: bytes, compression: Compression) -> bytes:
        """Return a batch with other content and a checksum that fits."""
        size = b"" if self.magic == BATCH_MAGIC else len(content).to_bytes(4, "big")
        batch = bytearray(self.header + size + content)
        attributes_at = BATCH_ATTRIBUTES_AT + 1 if self.magic == BATCH_MAGIC else MESSAGE_V0_ATTRIBUTES_AT
        batch[attributes_at] = batch[attributes_at] & ~BATCH_COMPRESSION_MASK | compression
        length = len(batch) - BATCH_BATCH_LENGTH_COUNTS_FROM
        batch[BATCH_BATCH_LENGTH_AT : BATCH_BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big")
        return _resealed(bytes(batch))


def _first_content(data: bytes) -> _Content | None:
    """Return the content of the first batch or wrapper, None if it cannot be read."""
    try:
        batch = next(walk(data, check_crc=False, engine="python"), None)
        if isinstance(batch, python_batch.RecordBatch):
            return _Content(data[:BATCH_HEADER_BYTES], batch.magic, batch.compression, bytes(batch.payload()))
        if batch is None or batch.compression == Compression.NONE:
            return None
        # A wrapper has no key; its header ends with the size of that, and the size of its value follows.
        header_bytes = 4 + (MESSAGE_V0_HEADER_BYTES if batch.magic == MESSAGE_V0_MAGIC else MESSAGE_V1_HEADER_BYTES)
        value = bytes(batch.data[header_bytes + 4 :])
        plain = decompress(batch.compression, value, DECOMPRESSED_BYTES_MAX, batch.magic)
        return _Content(data[:header_bytes], batch.magic, batch.compression, plain)
    except DecodeError:
        return None


def _resealed(data: bytes) -> bytes:
    """Return a record set with the right checksum in every batch and outer message that is whole."""
    sealed = bytearray(data)
    position = 0
    while position + BATCH_HEADER_BYTES <= len(sealed):
        size_at = position + BATCH_BATCH_LENGTH_AT
        end = position + BATCH_BATCH_LENGTH_COUNTS_FROM + int.from_bytes(sealed[size_at : size_at + 4], "big")
        if sealed[position + BATCH_MAGIC_AT] == BATCH_MAGIC:
            covered, at, checksum = BATCH_CRC_COVERS_FROM, BATCH_CRC_AT, crc32c
        else:
            covered, at, checksum = MESSAGE_V0_CRC_COVERS_FROM, MESSAGE_V0_CRC_AT, crc32
        if not position + covered <= end <= len(sealed):
            break
        sealed[position + at : position + at + 4] = checksum(bytes(sealed[position + covered : end])).to_bytes(4, "big")
        position = end
    return bytes(sealed)


# --- what the targets share -------------------------------------------------------------------------------------------


def _engines(case: Case, extension: object) -> list[str]:
    """Return the engines that check a case; apart from what is built, the choice depends on the bytes only."""
    native = ["native"] if extension is not None else []
    construct = ["construct"] if crc32(case.data) % CONSTRUCT_EVERY == 0 else []
    return [*native, "python", *construct]


def _vectors(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


TARGETS: dict[str, Target] = {
    "codec": Target(cache(message_inputs), damage_message, check_message),
    "frames": Target(cache(frame_inputs), damage_stream, check_stream),
    "records": Target(cache(record_inputs), damage_records, check_records),
    "connection": Target(cache(connection_inputs), damage_content, check_content),
}
