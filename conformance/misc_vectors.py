"""Check hashes, integers, UUIDs, SCRAM and the assignors against golden vectors from Apache Kafka's own classes.

`check_misc_vector` takes one line of `misc.jsonl.gz`, and each kind of vector has its own check. `vectors/README.md`
explains the fields.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkawire.conformance.varint_vectors import check_varint, check_varint_read, check_varlong
from kafkawire.sdk.client.partitioner import murmur2, murmur2_partition
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors import ASSIGNORS, Assignment
from kafkawire.sdk.groups.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkawire.sdk.protocol.scram import ScramClient, ScramServer, make_credential, salted_password, sasl_name
from kafkawire.sdk.protocol.uuids import RESERVED_UUIDS, format_uuid, parse_uuid, uuid_order
from kafkawire.sdk.records.crc import crc32, crc32c
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["check_misc_vector"]

Vector = dict[str, Any]


def check_misc_vector(vector: Vector, engine: str) -> str | None:
    """Check one vector of any kind.

    Args:
        vector: a line in misc.
        engine: one of the engines; kinds without a codec ignore it.

    Returns:
        The difference, or None.
    """
    check = _CHECKS.get(vector["kind"])
    return f"there is no check for the kind {vector['kind']}" if check is None else check(vector, engine)


def _compare(vector: Vector, **found: object) -> str | None:
    """Return the first value that differs from that in the vector; None if none does."""
    for name, value in found.items():
        if value != vector[name]:
            return f"{name} {value!r}, but expected {vector[name]!r}"
    return None


def _murmur2(vector: Vector, engine: str) -> str | None:
    data = bytes.fromhex(vector["hex"])
    # Java's int is signed; `to_positive` is the number without its sign bit.
    signed = int.from_bytes(murmur2(data).to_bytes(4, "big"), "big", signed=True)
    partition = {count: murmur2_partition(data, int(count)) for count in vector["partition"]}
    return _compare(vector, murmur2=signed, to_positive=signed & 0x7FFFFFFF, partition=partition)


def _crc(vector: Vector, engine: str) -> str | None:
    data = bytes.fromhex(vector["hex"])
    return _compare(vector, crc32c=crc32c(data), crc32=crc32(data))


def _float64(vector: Vector, engine: str) -> str | None:
    # Python can parse Java's text: "NaN", "Infinity", "4.9E-324".
    encoded = struct.pack(">d", float(vector["text"]))
    read = struct.unpack(">d", bytes.fromhex(vector["hex"]))[0]
    if repr(read) != repr(float(vector["text"])):
        return f"read {read!r}, but expected {vector['text']}"
    return _compare(vector, hex=encoded.hex())


def _uuid(vector: Vector, engine: str) -> str | None:
    uuid = parse_uuid(vector["text"])
    return _compare(vector, hex=uuid.hex(), text=format_uuid(uuid), reserved=uuid in RESERVED_UUIDS)


def _uuid_read(vector: Vector, engine: str) -> str | None:
    try:
        again = format_uuid(parse_uuid(vector["text"]))
    except LocalProtocolError as error:
        return None if "error" in vector else f"refused with {error!r}, but expected {vector['again']}"
    return f"read as {again}, but expected an error" if "error" in vector else _compare(vector, again=again)


def _uuid_compare(vector: Vector, engine: str) -> str | None:
    left, right = uuid_order(parse_uuid(vector["a"])), uuid_order(parse_uuid(vector["b"]))
    return _compare(vector, sign=(left > right) - (left < right))


def _scram(vector: Vector, engine: str) -> str | None:
    """Run an authentication between client and broker, and compare the messages and stored keys."""
    mechanism, password, iterations = vector["mechanism"], vector["password"], vector["iterations"]
    salt = base64.b64decode(vector["salt"])
    try:
        salted = salted_password(mechanism, password, salt, iterations)
    except ConfigurationError as error:
        return None if "error" in vector else f"refused with {error!r}"
    if "error" in vector:
        return "the password was accepted, but expected an error"
    credential = make_credential(mechanism, password, salt, iterations)
    nonce = vector["client_nonce"]
    extensions = {"tokenauth": "true"} if ",tokenauth=true" in vector["client_first"] else {}
    client = ScramClient(mechanism, vector["user"], password, nonce, extensions, iterations_min=1)
    server = ScramServer(mechanism, vector["server_nonce"].removeprefix(nonce))
    client_first = client.first_message()
    known = server.receive_first(client_first)
    if known != (vector["user"], extensions, ""):
        return f"the broker read {known}"
    server_first = server.first_message(credential)
    client_final = client.receive_first(server_first)
    server_final = server.receive_final(client_final)
    client.receive_final(server_final)
    return _compare(
        vector,
        sasl_name=sasl_name(vector["user"]),
        salted_password=_base64(salted),
        stored_key=_base64(credential.stored_key),
        server_key=_base64(credential.server_key),
        client_first=client_first.decode(),
        server_first=server_first.decode(),
        client_final=client_final.decode(),
        server_final=server_final.decode(),
        credential_iterations=credential.iterations,
        credential_stored_key=_base64(credential.stored_key),
        credential_server_key=_base64(credential.server_key),
    )


def _assignor(vector: Vector, engine: str) -> str | None:
    """Compute the assignment as the leader of the group does, and compare subscriptions and assignments."""
    assignor = ASSIGNORS[vector["assignor"]]
    subscriptions = {member: _subscription(sent) for member, sent in vector["members"].items()}
    for member, subscription in subscriptions.items():
        data = vector["members"][member]["subscription_hex"]
        if (encoded := encode_subscription(subscription)).hex() != data:
            return f"subscription of {member} {encoded.hex()}, but expected {data}"
        again = decode_subscription(encoded)._replace(group_instance_id=subscription.group_instance_id)
        topics, owned = tuple(sorted(subscription.topics)), tuple(sorted(subscription.owned_partitions))
        if again != subscription._replace(topics=topics, owned_partitions=owned):
            return f"subscription of {member} read as {again}"
    expected = {member: _partitions(assigned) for member, assigned in vector["assignment"].items()}
    for member, partitions in expected.items():
        data = vector["assignment_hex"][member]
        if (encoded := encode_assignment(partitions)).hex() != data:
            return f"assignment of {member} {encoded.hex()}, but expected {data}"
        if sorted(decode_assignment(encoded)) != sorted(partitions):
            return f"assignment of {member} read as {decode_assignment(encoded)}"
    topics, racks = vector["topics"], vector.get("replica_racks")
    assignment = assignor.assign(subscriptions, topics, racks)
    # Kafka's range assignor goes through topics in the order of a hash table, which does not affect the assignment.
    exact = assignment == expected or (assignor.name == "range" and _ordered(assignment) == _ordered(expected))
    if not exact:
        return f"assignment {assignment}, but expected {expected}"
    # This project's members send the same user data in a different order.
    ours = {
        member: sent._replace(
            user_data=sent.user_data and assignor.user_data(sent.owned_partitions, sent.generation_id)
        )
        for member, sent in subscriptions.items()
    }
    if _ordered(assignment := assignor.assign(ours, topics, racks)) != _ordered(expected):
        return f"with this project's user data, the assignment is {assignment}, but expected {expected}"
    return None


def _ordered(assignment: Mapping[str, Sequence[TopicPartition]]) -> Assignment:
    return {member: sorted(partitions) for member, partitions in assignment.items()}


def _subscription(sent: Vector) -> MemberSubscription:
    user_data = None if sent["user_data"] is None else base64.b64decode(sent["user_data"])
    return MemberSubscription(
        tuple(sent["topics"]),
        tuple(_partitions(sent["owned"])),
        sent["generation"],
        sent["rack"],
        user_data,
        sent["group_instance_id"],
    )


def _partitions(pairs: list[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, number in pairs]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_CHECKS: dict[str, Callable[[Vector, str], str | None]] = {
    "murmur2": _murmur2,
    "crc": _crc,
    "varint": check_varint,
    "varlong": check_varlong,
    "varint-read": check_varint_read,
    "float64": _float64,
    "uuid": _uuid,
    "uuid-read": _uuid_read,
    "uuid-compare": _uuid_compare,
    "scram": _scram,
    "assignor": _assignor,
}
