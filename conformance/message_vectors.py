"""Check the message codecs against golden vectors: values, with the bytes from Apache Kafka's own classes.

Each check takes one vector (a line in a vector file) and an engine, and returns None or the difference. The test suite
and the conformance runner share the checks. `vectors/README.md` explains the fields of a vector.
"""

from __future__ import annotations

import re
from typing import Any

from kafkawire.sdk.errors import DecodeError, EncodeError, KafkaWireError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.engines.construct_primitives import UnsignedVarint
from kafkawire.sdk.protocol.json_form import from_json, to_json
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS

__all__ = [
    "STRICTER",
    "check_corrupt_message_vector",
    "check_frame_vector",
    "check_message_vector",
    "check_write_rule_vector",
    "stricter",
]

#: The kinds of corrupt input that Apache Kafka's message classes decode but this project refuses, and why.
STRICTER = {
    "unsupported-version": "Kafka's readers accept any version number and leave the check to their callers; "
    "here, a version outside the schema has no codec, and a removed one is read as in the release that had it",
}

Vector = dict[str, Any]


def stricter(vector: Vector) -> str | None:
    """Return why this project refuses a vector that Apache Kafka decodes; None if it does not."""
    return STRICTER.get(vector.get("kind", "")) if vector.get("outcome") == "decoded" else None


def check_message_vector(vector: Vector, engine: str) -> str | None:
    """Decode `hex` to `value` and encode `value` to `hex`.

    Args:
        vector: a line in requests, responses, headers, data, coordinator or metadata.
        engine: one of the engines.

    Returns:
        The difference, or None.
    """
    data = bytes.fromhex(vector["hex"])
    expected = _message(vector["name"], vector["version"], vector["value"], vector.get("unknown_tags", []))
    messages = program(vector["name"], vector["version"], engine)
    decoded, end = messages.decode(data)
    if end != len(data):
        return f"decoding ended at byte {end} of {len(data)}"
    if decoded != expected:
        return f"decoded {decoded!r}, but expected {expected!r}"
    if (value := to_json(decoded, vector["version"])) != vector["value"]:
        return f"converted to JSON {value!r}, but expected {vector['value']!r}"
    for message in (expected, decoded):
        if (encoded := messages.encode(message)) != data:
            return f"encoded {encoded.hex()}, but expected {vector['hex']}"
        if (parts := b"".join(messages.encode_parts(message))) != data:
            return f"encoded in parts {parts.hex()}, but expected {vector['hex']}"
    if "framing" in vector and _prefix(vector) + encoded != bytes.fromhex(vector["framed_hex"]):
        return f"framed {(_prefix(vector) + encoded).hex()}, but expected {vector['framed_hex']}"
    return None


def check_frame_vector(vector: Vector, bodies: dict[tuple[str, int, int], Vector], engine: str) -> str | None:
    """Decode and re-encode a whole request or response: size, header and body.

    Args:
        vector: a line in frames.
        bodies: the vectors of requests and responses, keyed by name, version and index.
        engine: one of the engines.

    Returns:
        The difference, or None.
    """
    data = bytes.fromhex(vector["hex"])
    header_name = "RequestHeader" if vector["type"] == "request" else "ResponseHeader"
    api = KNOWN_APIS[vector["api_key"]]
    of_version = api.request_header_version if vector["type"] == "request" else api.response_header_version
    if (header_version := of_version(vector["version"])) != vector["header_version"]:
        return f"header version {header_version}, but expected {vector['header_version']}"
    headers = program(header_name, header_version, engine)
    messages = program(vector["name"], vector["version"], engine)
    header, start = headers.decode(data, 4)
    message, end = messages.decode(data, start)
    sizes = (int.from_bytes(data[:4], "big"), start - 4, end - start)
    if sizes != (len(data) - 4, vector["header_size"], vector["body_size"]):
        return f"sizes of frame, header and body {sizes}"
    if header != from_json(header_name, vector["header_version"], vector["header"]):
        return f"header {header!r}, but expected {vector['header']!r}"
    body = bodies[vector["name"], vector["version"], vector["index"]]
    if message != _message(vector["name"], vector["version"], body["value"], body.get("unknown_tags", [])):
        return f"body {message!r}, but expected {body['value']!r}"
    content = headers.encode(header) + messages.encode(message)
    encoded = len(content).to_bytes(4, "big") + content
    return None if encoded == data else f"encoded {encoded.hex()}, but expected {vector['hex']}"


def check_write_rule_vector(vector: Vector, engine: str) -> str | None:
    """Encode a value in a version that cannot carry all of it; expect Kafka's bytes, or an error that names the field.

    Args:
        vector: a line in write_rules.
        engine: one of the engines.

    Returns:
        The difference, or None.
    """
    message = from_json(vector["name"], vector["value_version"], vector["value"])
    try:
        encoded = program(vector["name"], vector["version"], engine).encode(message)
    except LocalProtocolError as error:
        if vector["outcome"] != "error":
            return f"refused with {error!r}, but expected {vector['hex']}"
        expected = UnsupportedVersion if vector["kind"] == "absent-field" else EncodeError
        field = _snake(vector["path"].split(".")[-1])
        return (
            None
            if isinstance(error, expected) and field in str(error)
            else f"{error!r} does not mention the field {field}"
        )
    if vector["outcome"] == "error":
        return f"encoded {encoded.hex()}, but expected an error"
    return None if encoded.hex() == vector["hex"] else f"encoded {encoded.hex()}, but expected {vector['hex']}"


def check_corrupt_message_vector(vector: Vector, engine: str) -> str | None:
    """Decode damaged bytes; expect the same value as from Kafka, or an error if Kafka refuses them.

    Args:
        vector: a line in corrupt whose target is `message`.
        engine: one of the engines.

    Returns:
        The difference, or None; the refusals listed in `STRICTER` are not considered differences.
    """
    data = bytes.fromhex(vector["hex"])
    try:
        messages = program(vector["name"], vector["version"], engine)
        if stricter(vector) and message_class(vector["name"]).SCHEMA.removed_in(vector["version"]) is not None:
            return None
        message, end = messages.decode(data)
    except UnsupportedVersion as error:
        return None if vector["outcome"] == "error" or stricter(vector) else f"refused with {error!r}"
    except DecodeError as error:
        return None if vector["outcome"] == "error" else f"refused with {error!r}, but expected {vector['value']!r}"
    if vector["outcome"] == "error":
        return f"decoded {message!r}, but expected an error like Kafka's {vector['error']}"
    if (value := to_json(message, vector["version"])) != vector["value"]:
        return f"decoded {value!r}, but expected {vector['value']!r}"
    if len(data) - end != vector["remaining"]:
        return f"{len(data) - end} bytes are left, but expected {vector['remaining']}"
    try:
        encoded = messages.encode(message)
    except KafkaWireError as error:
        return None if "reencode_error" in vector else f"re-encoding failed with {error!r}"
    if "reencode_error" in vector:
        return f"re-encoded to {encoded.hex()}, but expected an error like Kafka's {vector['reencode_error']}"
    expected = vector.get("reencoded_hex", data[:end].hex())
    return None if encoded.hex() == expected else f"re-encoded to {encoded.hex()}, but expected {expected}"


def _message(name: str, version: int, value: Any, unknown_tags: list[Vector]) -> Message:
    """Return the message for a JSON value, with its unknown tagged fields."""
    message = from_json(name, version, value)
    for entry in unknown_tags:
        owner: Any = message
        for step in entry["path"].split("/")[1:]:
            owner = owner[int(step)] if step.isdigit() else getattr(owner, _snake(step))
        owner.unknown_tags += ((entry["tag"], bytes.fromhex(entry["hex"])),)
    return message


def _prefix(vector: Vector) -> bytes:
    """Return the prefix with which Kafka stores a message; see `framing` in `vectors/README.md`."""
    key, version = message_class(vector["name"]).SCHEMA.key, vector["version"]
    match vector["framing"]:
        case "type-prefix" if key is not None:
            return key.to_bytes(2, "big")
        case "version-prefix":
            return bytes(version.to_bytes(2, "big"))
        case "metadata-frame" | "remote-log-metadata-frame":
            return b"".join(UnsignedVarint.build(number) for number in (1, key, version))
        case framing:
            raise ValueError(f"unknown framing {framing!r} of {vector['name']}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1\2", name.removesuffix("[]")).lower()
