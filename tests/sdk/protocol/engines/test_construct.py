"""A layout's declarative form means the same as source and as an object, and annotates every byte.

Method: execute the source of every distinct layout, and compare it with the object; check that the spans of a trace
cover an encoding without gaps, whether it is whole or cut anywhere."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines import construct_primitives, construct_structures
from kafkawire.sdk.protocol.engines.construct import (
    Program,
    construct_of,
    construct_text,
    decode,
    encode_parts,
    trace,
)
from kafkawire.sdk.protocol.engines.construct_primitives import Span
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.programs import message_class

METADATA = MetadataRequest(
    topics=[MetadataRequest.MetadataRequestTopic(name="a")], allow_auto_topic_creation=True, unknown_tags=((9, b"x"),)
)
PARTITION = FetchResponse.PartitionData(
    partition_index=1, records=b"abc", current_leader=FetchResponse.LeaderIdAndEpoch(1, 2)
)
FETCHED = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[PARTITION])])


def test_text() -> None:
    assert construct_text(layout(MetadataRequest, 9)) == (
        "MetadataRequest_9 = Structure(MetadataRequest, 9,\n"
        '    "topics" / CompactNullableArray(Structure(MetadataRequest.MetadataRequestTopic, 9,\n'
        '        "name" / CompactString,\n'
        '        "unknown_tags" / TaggedFields({}),\n'
        "    )),\n"
        '    "allow_auto_topic_creation" / Bool,\n'
        '    "include_cluster_authorized_operations" / Bool,\n'
        '    "include_topic_authorized_operations" / Bool,\n'
        '    "unknown_tags" / TaggedFields({}),\n'
        ")\n"
    )


def test_text_names_the_tags_that_are_not_valid() -> None:
    assert '"unknown_tags" / TaggedFields({}, invalid=(0, 1)),\n' in construct_text(layout(FetchRequest, 12))
    assert "    }, invalid=(1,)),\n)" in construct_text(layout(FetchRequest, 12))


def test_text_is_the_source_of_the_construct(subtests: pytest.Subtests) -> None:
    for name in sorted(MODULES):
        with subtests.test(name=name):
            cls = message_class(name)
            for version in cls.SCHEMA.known_versions.numbers():
                namespace = {**vars(construct_primitives) | vars(construct_structures), cls.__name__: cls}
                exec(construct_text(layout(cls, version)), namespace)
                data = construct_of(layout(cls, version)).build(cls())
                declared = namespace[f"{name}_{version}"]
                assert declared.build(cls()) == data
                assert declared.parse(data) == construct_of(layout(cls, version)).parse(data)


@pytest.mark.parametrize(("message", "version"), [(METADATA, 12), (FETCHED, 12), (FETCHED, 15)])
def test_a_trace_covers_all_bytes(message: MetadataRequest | FetchResponse, version: int) -> None:
    data = codec(type(message), version).encode(message)
    spans, error = trace(layout(type(message), version), data)
    assert error is None
    assert [span.offset for span in spans] == [sum(s.length for s in spans[:i]) for i in range(len(spans))]
    assert sum(span.length for span in spans) == len(data)


def test_what_a_trace_says() -> None:
    data = codec(MetadataRequest, 12).encode(METADATA)
    spans, _ = trace(layout(MetadataRequest, 12), data)
    assert [(span.offset, span.length, span.path, repr(span.value)) for span in spans] == [
        (0, 1, "topics", "1 elements"),
        (1, 16, "topics[0].topic_id", repr(bytes(16))),
        (17, 2, "topics[0].name", "'a'"),
        (19, 1, "topics[0].unknown_tags", "0 tagged fields"),
        (20, 1, "allow_auto_topic_creation", "True"),
        (21, 1, "include_topic_authorized_operations", "False"),
        (22, 1, "unknown_tags", "1 tagged fields"),
        (23, 3, "unknown_tags", "(9, b'x')"),
    ]


@pytest.mark.parametrize("cut", range(26))
def test_a_trace_of_cut_bytes_ends_before_the_error(cut: int) -> None:
    data = codec(MetadataRequest, 12).encode(METADATA)[:cut]
    spans, error = trace(layout(MetadataRequest, 12), data)
    assert isinstance(error, DecodeError)
    assert sum(span.length for span in spans) == error.offset


def test_a_trace_counts_from_the_start_of_the_buffer() -> None:
    spans, _ = trace(layout(ResponseHeader, 0), b"xx\0\0\0\7", 2)
    assert spans == [Span(2, 4, "correlation_id", 7)]


def test_decode_and_encode_parts() -> None:
    one = layout(ProduceRequest, 9)
    message, end = decode(one, Program(one).encode(ProduceRequest()), 0)
    assert (message, end) == (ProduceRequest(), len(b"".join(encode_parts(one, message))))


def test_the_same_form_for_the_same_layout() -> None:
    assert construct_of(layout(MetadataRequest, 9)) is construct_of(layout(MetadataRequest, 9))
