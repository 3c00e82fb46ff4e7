"""The targets that `tools/fuzz.py` feeds with damaged bytes, and their invariants.

A target creates cases from the golden vectors, and checks one at a time. A check depends only on the case, even where
it cuts or samples, so a failed case fails again. The check returns the problem; any exception that it raises is a
finding too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from kafkawire.sdk.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.connection import ClientConnection, ServerConnection
from kafkawire.sdk.protocol.engines import selection as codec_engine
from kafkawire.sdk.protocol.frames import FrameBuffer, FrameTooLarge, frame
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from tools.fuzz_cases import Case, Target, engines_of, vectors
from tools.fuzz_dump import check_internal, check_lines, damage_internal, internal_inputs
from tools.fuzz_logins import check_login, damage_login, login_inputs
from tools.fuzz_records import check_produced, check_records, damage_records, produced_inputs, record_inputs
from tools.mutation import mutate

__all__ = ["TARGETS"]

#: The largest frame in the checks of frames; mutated lengths fall on both sides of it.
FRAME_BYTES_MAX = 1024

_FRAMES_OF_A_STREAM_MAX = 5


# --- the message codecs -----------------------------------------------------------------------------------------------

#: Removed versions, encoded by an older release; codecs just read these, and they are never sent to a broker.
_OLDER_FILES = ("kafka_3_9_1/requests", "kafka_3_9_1/responses", "kafka_3_9_1/headers")
_MESSAGE_FILES = ("requests", "responses", "headers", "data", "coordinator", "metadata", "corrupt")


def message_inputs() -> list[Case]:
    """Return the golden messages, and the damaged ones among the vectors."""
    cases = []
    for name in (*_MESSAGE_FILES, *_OLDER_FILES):
        for vector in vectors(name):
            if vector.get("target") != "records" and vector.get("kind") != "unsupported-version":
                cases.append(Case(f"{vector['name']} {vector['version']}", bytes.fromhex(vector["hex"])))
    return cases


def damage_message(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged message, sometimes labelled as another message or version."""
    case, other = random.choice(inputs), random.choice(inputs)
    label = other.label if random.random() < 0.05 else case.label
    return Case(label, mutate(random, case.data, other.data))


def check_message(case: Case) -> str | None:
    """Decode with every engine, expect equal messages or equal errors, and encode the decoded message."""
    name, version = case.label.split()
    codecs = [codec(name, int(version), engine) for engine in engines_of(case, codec_engine.native)]
    answers = [_decoded(each, case.data) for each in codecs]
    for each, answer in zip(codecs[1:], answers[1:], strict=True):
        if not _same(answer, answers[0]):
            return f"{codecs[0].engine} gives {answers[0]!r}, but {each.engine} gives {answer!r}"
    message, end = answers[0]
    if not isinstance(message, Message):
        return None
    if not 0 <= end <= len(case.data):
        return f"the message ends at byte {end} of {len(case.data)}"
    encodings = [_encoded(each, answer[0]) for each, answer in zip(codecs, answers, strict=True)]
    for each, encoding in zip(codecs[1:], encodings[1:], strict=True):
        if encoding != encodings[0]:
            return f"{codecs[0].engine} encodes {encodings[0]!r}, but {each.engine} encodes {encoding!r}"
    if isinstance(encodings[0], bytes):
        for each in codecs:
            again = _decoded(each, encodings[0])
            if not _same(again, (message, len(encodings[0]))):
                return f"{message!r} is {again!r} after encoding and decoding on {each.engine}"
    return None


def _decoded(messages: Codec[Message], data: bytes) -> tuple[Any, Any]:
    """Return the message and its end, or the path and offset of the error."""
    try:
        return messages.decode(data)
    except DecodeError as error:
        return error.path, error.offset
    except Exception as error:
        error.add_note(f"decoding with {messages}")
        raise


def _encoded(messages: Codec[Message], message: Message) -> bytes | tuple[str, str]:
    """Return the encoding, or the class and text of the error."""
    try:
        encoded = messages.encode(message)
        parts = b"".join(messages.encode_parts(message))
    except LocalProtocolError as error:
        return type(error).__name__, str(error)
    except Exception as error:
        error.add_note(f"encoding with {messages}")
        raise
    if parts != encoded:
        raise AssertionError(f"{messages} encodes {encoded.hex()}, but in parts, it encodes {parts.hex()}")
    return encoded


def _same(left: object, right: object) -> bool:
    """Compare values by their bytes; unlike in Python, a NaN then equals itself."""
    return left == right or _comparable(left) == _comparable(right)


def _comparable(value: Any) -> Any:
    if isinstance(value, Message):
        return type(value), [_comparable(getattr(value, name)) for name in value.__match_args__]
    if isinstance(value, list | tuple):
        return [_comparable(element) for element in value]
    return struct.pack(">d", value) if isinstance(value, float) else value


# --- frames -----------------------------------------------------------------------------------------------------------


def frame_inputs() -> list[Case]:
    """Return whole requests and responses, each preceded by its length."""
    return [Case("stream", bytes.fromhex(vector["hex"])) for vector in vectors("frames")]


def damage_stream(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged stream of a few frames."""
    stream = b"".join(random.choice(inputs).data for _ in range(random.randint(1, _FRAMES_OF_A_STREAM_MAX)))
    return Case("stream", mutate(random, stream, random.choice(inputs).data))


def check_stream(case: Case) -> str | None:
    """Receive the stream whole and in pieces; both must yield equal frames, or a refusal after equal frames."""
    random = Random(case.data)
    cuts = sorted(random.randrange(len(case.data) + 1) for _ in range(random.randrange(8)))
    pieces = [case.data[start:end] for start, end in zip([0, *cuts], [*cuts, len(case.data)], strict=True)]
    frames, refused = _received([case.data[at : at + 1] for at in range(len(case.data))])
    for chunks in (pieces, [case.data]):
        same_frames, same_refused = _received(chunks)
        if (same_frames, same_refused) != (frames, refused):
            sizes = list(map(len, chunks))
            return f"{len(same_frames)} frames in pieces of {sizes} bytes, but {len(frames)} frames byte by byte"
    if not case.data.startswith(b"".join(map(frame, frames))):
        return f"{len(frames)} frames were received that are not in the stream"
    return None


def _received(pieces: Sequence[bytes]) -> tuple[list[bytes], bool]:
    """Return the frames, and whether a length was refused."""
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    frames: list[bytes] = []
    for piece in pieces:
        try:
            frames += buffer.receive(piece)
        except FrameTooLarge:
            break
    return frames, buffer.error is not None


# --- connections ------------------------------------------------------------------------------------------------------

_SUPPORTED = {key: APIS[key].versions for key in APIS}


def connection_inputs() -> list[Case]:
    """Return the content of whole requests and responses, the latter as responses to the first request."""
    cases = []
    for vector in vectors("frames"):
        content = bytes.fromhex(vector["hex"])[4:]
        if vector["type"] == "request":
            cases.append(Case("request", content))
        elif _asked(ApiKey(vector["api_key"]), vector["version"]) is not None:
            cases.append(Case(f"response {vector['api_key']} {vector['version']}", bytes(4) + content[4:]))
    return cases


def damage_content(random: Random, inputs: Sequence[Case]) -> Case:
    """Return a damaged frame; a response usually has the expected correlation id."""
    case, other = random.choice(inputs), random.choice(inputs)
    if random.random() < 0.1:
        return Case(case.label, mutate(random, case.data, other.data))
    # The first bytes identify the message; if they are damaged, the rest is not read.
    kept = random.choice((4, 8)) if case.label == "request" else 4
    return Case(case.label, case.data[:kept] + mutate(random, case.data[kept:], other.data))


def check_content(case: Case) -> str | None:
    """Receive the frame on the side for which it is meant; expect a message, or an error blamed on the peer."""
    if case.label == "request":
        connection = ServerConnection(_SUPPORTED)
        try:
            request = connection.receive(case.data)
        except RemoteProtocolError:
            return None if connection.pending == 0 else "a refused request is still pending"
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
    """Return a client that waits for the response to a request; None if the request cannot consist of defaults."""
    client = ClientConnection()
    try:
        client.request(message_class(f"{APIS[key].name}Request")(), version)
    except LocalProtocolError:
        return None
    return client


TARGETS: dict[str, Target] = {
    "codec": Target(cache(message_inputs), damage_message, check_message),
    "frames": Target(cache(frame_inputs), damage_stream, check_stream),
    "records": Target(cache(record_inputs), damage_records, check_records),
    "produced": Target(cache(produced_inputs), damage_records, check_produced),
    "lines": Target(cache(record_inputs), damage_records, check_lines),
    "internal": Target(cache(internal_inputs), damage_internal, check_internal),
    "connection": Target(cache(connection_inputs), damage_content, check_content),
    "login": Target(cache(login_inputs), damage_login, check_login),
}
