"""Measure the message codecs against construct and the codecs of Python Kafka clients.

The benchmark covers seven messages that brokers and clients exchange constantly. The construct codecs are written by
hand in the usual way, as a `Struct` of standard parts, with small classes for Kafka's strings and arrays. kio,
kafka-python and aiokafka are measured if they are installed and have the message; a peer that does not build identical
bytes is skipped with a note.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import construct

from benchmarks.goals import Goal
from benchmarks.timing import best_seconds
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import native
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message

__all__ = ["CASES", "Case", "Result", "filled", "goals", "measure", "tables"]


class Case(NamedTuple):
    """A message to measure: its name, its version, and the number of elements in its arrays."""

    name: str
    version: int
    counts: dict[str, int]
    records: bytes = b""

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class Result(NamedTuple):
    """The seconds that one parse and one build take, keyed by codec."""

    case: Case
    size: int
    parse: dict[str, float]
    build: dict[str, float]


_METADATA = {"brokers": 3, "topics": 100, "partitions": 10, "replica_nodes": 3, "isr_nodes": 3, "offline_replicas": 0}
_FETCH = {"responses": 10, "partitions": 10, "aborted_transactions": 0}

CASES = (
    Case("MetadataResponse", 12, _METADATA),
    Case("MetadataResponse", 5, _METADATA),
    Case("FetchResponse", 12, _FETCH, bytes(1000)),
    Case("FetchResponse", 4, _FETCH, bytes(1000)),
    Case("ProduceRequest", 9, {"topic_data": 10, "partition_data": 10}, bytes(1000)),
    Case("OffsetCommitRequest", 8, {"topics": 10, "partitions": 10}),
    Case("ApiVersionsResponse", 3, {"api_keys": 60}),
)

#: The operation, our engine, the peer, and the lowest ratio allowed in any case.
_WANTED = (
    ("parse", "native", "construct", 110.0),
    ("parse", "native", "kio", 2.2),
    ("parse", "native", "kafka-python", 9.0),
    ("build", "native", "construct", 150.0),
    ("build", "native", "kio", 50.0),
    ("build", "native", "kafka-python", 23.0),
    ("parse", "python", "kafka-python", 1.0),
    ("build", "python", "kafka-python", 2.0),
)


def measure(case: Case, seconds: float = 0.2) -> Result:
    """Measure one message with all codecs, which take turns.

    Args:
        case: the message.
        seconds: the time per codec.
    """
    shape = layout(message_class(case.name), case.version)
    data = codec(case.name, case.version).encode(filled(case))
    parse: dict[str, Callable[[], object]] = {}
    build: dict[str, Callable[[], object]] = {}
    for engine in ("native", "python") if native is not None else ("python",):
        messages = codec(case.name, case.version, engine)
        decoded = messages.decode(data)[0]
        parse[engine], build[engine] = partial(messages.decode, data), partial(messages.encode, decoded)
        through = f"{engine}, parse()"
        parse[through], build[through] = partial(messages.parse, data), partial(messages.build, decoded)
    for name, peer in (
        ("construct", _construct),
        ("kio", _kio),
        ("kafka-python", _kafka_python),
        ("aiokafka", _aiokafka),
    ):
        try:
            read, write = peer(shape, data)
            if bytes(write()) != data:  # type: ignore[call-overload]  # each peer has its own type of bytes
                raise ValueError("the peer builds different bytes")
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            print(f"{case}: {name} skipped: {error!r:.100}")
            continue
        parse[name], build[name] = read, write
    return Result(case, len(data), best_seconds(parse, seconds), best_seconds(build, seconds))


def filled(case: Case) -> Message:
    """Return the message of a case."""
    return _fill(layout(message_class(case.name), case.version), case, 0)


def _fill(shape: Layout, case: Case, number: int) -> Message:
    message = shape.cls()
    for field in shape.fields:
        if field.array:
            count = case.counts[field.name]
            setattr(message, field.name, tuple(_value(field, case, index) for index in range(count)))
        else:
            setattr(message, field.name, _value(field, case, number))
    return message


def _value(field: FieldLayout, case: Case, number: int) -> Any:
    match field.kind:
        case "struct":
            assert field.structure is not None
            return _fill(field.structure, case, number)
        case "string":
            return f"topic-{number:04}.example" if "name" in field.name else f"host-{number % 7}.kafka.example"
        case "records":
            return case.records
        case "bytes":
            return b""
        case "uuid":
            return number.to_bytes(16, "big")
        case "bool":
            return False
        case "int8":
            return number % 100
        case "int16":
            return 0 if "error" in field.name else number % 1000
        case "int64":
            return 1234567 + number * 1000
        case _:
            return number % 5000


def goals(results: list[Result]) -> list[Goal]:
    """Return the goals with the measured ratios."""

    def ratios(what: str, ours: str, other: str) -> dict[str, float]:
        times = {str(result.case): getattr(result, what) for result in results}
        return {case: each[other] / each[ours] for case, each in times.items() if other in each and ours in each}

    return [
        Goal(f"{what}: {ours} over {other}", wanted, ratios(what, ours, other)) for what, ours, other, wanted in _WANTED
    ]


def tables(results: list[Result]) -> str:
    """Return the results as Markdown tables, one per message."""
    return "\n\n".join(map(_table, results))


def _table(result: Result) -> str:
    lines = [
        f"#### {result.case}: {result.size:,} bytes\n",
        "| codec | parse µs | x construct | build µs | x construct |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, seconds in result.parse.items():
        build = result.build[name]
        ratios = result.parse["construct"] / seconds, result.build["construct"] / build
        lines.append(f"| {name} | {seconds * 1e6:,.1f} | {ratios[0]:.1f} | {build * 1e6:,.1f} | {ratios[1]:.1f} |")
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------------------------- peers

Functions = tuple[Callable[[], object], Callable[[], object]]


def _construct(shape: Layout, data: bytes) -> Functions:
    form = _hand_written(shape)
    value = form.parse(data)
    return lambda: form.parse(data), lambda: form.build(value)


def _kio(shape: Layout, data: bytes) -> Functions:
    from kio.serial import entity_reader, entity_writer

    api, kind = _api(shape)
    module = importlib.import_module(f"kio.schema.{api}.v{shape.version}.{kind}")
    entity = getattr(module, shape.name)
    read, write = entity_reader(entity), entity_writer(entity)
    parsed = read(data, 0)
    value = parsed.value if hasattr(parsed, "value") else parsed[0]

    def build() -> bytes:
        buffer = io.BytesIO()
        write(buffer, value)
        return buffer.getvalue()

    return lambda: read(data, 0), build


def _kafka_python(shape: Layout, data: bytes) -> Functions:
    modules = ("metadata.metadata", "metadata.api_versions", "consumer.fetch", "consumer.offsets", "consumer.group")
    for name in (*modules, "producer.produce"):
        module = importlib.import_module(f"kafka.protocol.{name}")
        if hasattr(module, shape.name):
            break
    cls = getattr(module, shape.name)
    value = cls.decode(data, version=shape.version)
    value._header = None  # otherwise, encode() puts the header before the body
    return lambda: cls.decode(data, version=shape.version), lambda: value.encode(version=shape.version)


def _aiokafka(shape: Layout, data: bytes) -> Functions:
    name = f"{shape.name}_v{shape.version}"
    for module in ("metadata", "fetch", "produce", "commit", "admin"):
        cls = getattr(importlib.import_module(f"aiokafka.protocol.{module}"), name, None)
        if cls is not None:
            return partial(cls.decode, data), cls.decode(data).encode
    raise AttributeError(f"there is no {name}")


def _api(shape: Layout) -> tuple[str, str]:
    """Return `MetadataResponse` as ("metadata", "response")."""
    kind = "request" if shape.name.endswith("Request") else "response"
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in shape.name[: -len(kind)])
    return words.lstrip("_"), kind


# ------------------------------------------------------------------------------------------------ the usual construct

_NUMBERS = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "uint16": construct.Int16ub,
    "int32": construct.Int32sb,
    "uint32": construct.Int32ub,
    "int64": construct.Int64sb,
    "float64": construct.Float64b,
    "uuid": construct.Bytes(16),
}


class _Prefix(construct.Construct):
    """A length, which is -1 for null, in classic or compact form."""

    def __init__(self, number: construct.Construct | None) -> None:
        super().__init__()
        self.number = number

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        if self.number is None:
            return int(construct.VarInt._parsereport(stream, context, path)) - 1
        return int(self.number._parsereport(stream, context, path))

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        if self.number is None:
            construct.VarInt._build(obj + 1, stream, context, path)
        else:
            self.number._build(obj, stream, context, path)
        return obj


class _Text(construct.Construct):
    """A length-prefixed string or bytes."""

    def __init__(self, prefix: _Prefix, text: bool) -> None:
        super().__init__()
        self.prefix, self.text = prefix, text

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        length = self.prefix._parsereport(stream, context, path)
        if length < 0:
            return None
        content = construct.stream_read(stream, length, path)
        return content.decode() if self.text else content

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        content = obj.encode() if self.text and obj is not None else obj
        self.prefix._build(-1 if content is None else len(content), stream, context, path)
        if content:
            construct.stream_write(stream, content, len(content), path)
        return obj


class _Elements(construct.Subconstruct):
    """A count-prefixed array."""

    def __init__(self, prefix: _Prefix, element: construct.Construct) -> None:
        super().__init__(element)
        self.prefix = prefix

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        count = self.prefix._parsereport(stream, context, path)
        return None if count < 0 else [self.subcon._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.prefix._build(-1 if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.subcon._build(element, stream, context, path)
        return obj


class _Tags(construct.Construct):
    """Tagged fields, keyed by tag."""

    def _parse(self, stream: Any, context: Any, path: str) -> dict[int, bytes]:
        tags = {}
        for _ in range(construct.VarInt._parsereport(stream, context, path)):
            tag = construct.VarInt._parsereport(stream, context, path)
            size = construct.VarInt._parsereport(stream, context, path)
            tags[tag] = construct.stream_read(stream, size, path)
        return tags

    def _build(self, obj: dict[int, bytes], stream: Any, context: Any, path: str) -> Any:
        construct.VarInt._build(len(obj), stream, context, path)
        for tag, content in sorted(obj.items()):
            construct.VarInt._build(tag, stream, context, path)
            construct.VarInt._build(len(content), stream, context, path)
            construct.stream_write(stream, content, len(content), path)
        return obj


def _hand_written(shape: Layout) -> construct.Construct:
    fields = []
    for field in shape.fields:
        if field.structure is not None:
            form = _hand_written(field.structure)
        elif field.kind in _NUMBERS:
            form = _NUMBERS[field.kind]
        else:
            number = construct.Int16sb if field.kind == "string" else construct.Int32sb
            form = _Text(_Prefix(None if field.compact else number), field.kind == "string")
        if field.array:
            form = _Elements(_Prefix(None if field.compact else construct.Int32sb), form)
        fields.append(field.name / form)
    if shape.flexible:
        fields.append("unknown_tags" / _Tags())
    return construct.Struct(*fields)
