"""Errors say whether another attempt may help, name the object, value and limit, and can be copied and pickled.

Method: check a table of each class's promises; find and copy every exception in the package; raise one in another
process.
"""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.codegen.located import Problem
from kafkawire.sdk import errors
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    ConnectFailed,
    DecodeError,
    EncodeError,
    KafkaWireError,
    PartialBatch,
    ProducerFenced,
    UnknownRecord,
)
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.tables.error_codes import FATAL, ErrorCode
from kafkawire.sdk.registry.registry import Check, RegistryCode


def test_one_tree() -> None:
    assert all(issubclass(getattr(errors, name), KafkaWireError) for name in errors.__all__)


@pytest.mark.parametrize(
    ("code", "retriable", "fatal"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False, False),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False, False),
    ],
)
def test_broker_error(code: ErrorCode, retriable: bool, fatal: bool) -> None:
    error = BrokerError(code, "partition t-0")
    assert (error.code, error.retriable, error.fatal) == (code, retriable, fatal)
    assert str(error) == f"{code.name}: partition t-0"
    assert str(BrokerError(code)) == code.name


def test_a_code_of_a_later_release() -> None:
    error = BrokerError(30_000, "topic t")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "error code 30000, which this release does not know; topic t" in str(error)


@pytest.mark.parametrize(
    ("name", "retriable"),
    [
        ("BufferFull", True),
        ("Closed", False),
        ("ConnectionLost", True),
        ("DeliveryTimedOut", False),
        ("NoOffset", False),
        ("RecordTooLarge", False),
        ("RemoteProtocolError", False),
        ("RequestTimedOut", True),
    ],
)
def test_retriable(name: str, retriable: bool) -> None:
    assert getattr(errors, name)("text").retriable is retriable


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (EncodeError("a.b", "too long"), {"path": "a.b", "reason": "too long"}),
        (DecodeError("a.b", 3, "cut off"), {"path": "a.b", "offset": 3, "reason": "cut off"}),
        (PartialBatch(61, 5, 70), {"path": "batch", "offset": 61, "left_bytes": 5, "needed_bytes": 70}),
        (PartialBatch(61, 5, None), {"left_bytes": 5, "needed_bytes": None}),
        (
            UnknownRecord("value", "t", 99, None, "unknown"),
            {"path": "value", "topic": "t", "type": 99, "version": None},
        ),
        (BrokerError(3, "topic t"), {"code": 3, "detail": "topic t", "retriable": True, "fatal": False}),
        (BrokerError(next(iter(FATAL))), {"detail": "", "fatal": True}),
        (ProducerFenced(47, "id x"), {"code": ErrorCode.INVALID_PRODUCER_EPOCH, "detail": "id x", "fatal": True}),
        (ConnectFailed(("broker", 9092), "refused"), {"address": "('broker', 9092)", "retriable": True}),
        (ConfigurationError("acks", 2, "expected 0"), {"option": "acks"}),
        (KafkaWireError("text"), {"retriable": False, "fatal": False}),
    ],
)
def test_attributes(error: KafkaWireError, attributes: dict[str, object]) -> None:
    assert {name: getattr(error, name) for name in attributes} == attributes


def test_a_partial_batch_says_what_is_missing() -> None:
    assert str(PartialBatch(61, 5, 70)) == (
        "batch at byte 61: partial batch: 70 bytes are needed, but 5 are left, so 65 are missing"
    )
    assert "5 bytes are left, too few for its length" in str(PartialBatch(61, 5, None))


def test_texts() -> None:
    assert str(ConnectFailed("a:1", "refused")) == "cannot connect to a:1: refused"
    assert str(ConnectFailed("a:1", "refused", "tcp")) == "cannot connect to a:1: tcp: refused"
    assert str(ConfigurationError("acks", 2, "expected 0")) == "acks=2: expected 0"
    assert str(EncodeError("a.b", "too long")) == "a.b: too long"
    assert str(EncodeError("", "too long")) == "too long"
    assert str(DecodeError("", 3, "cut off")) == "message at byte 3: cut off"


# ------------------------------------------------------------------------------------------------------------- copies

#: An argument for each parameter of an exception's `__init__`, keyed by name.
ARGUMENTS: dict[str, Any] = {
    "base_offset": 5,
    "check": Check("/a", 1),
    "codes": [RegistryCode.BAD_VERSION],
    "operations": [Check("/a", 1)],
    "address": ("broker", 9092),
    "code": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "detail": "partition t-0",
    "field": "partitions.0",
    "left_bytes": 5,
    "length": -1,
    "limit": 100,
    "line": 3,
    "more": Problem(Path("topics"), 4, "no type"),
    "needed_bytes": 70,
    "offset": 7,
    "option": "acks",
    "partition": 3,
    "path": Path("topics"),
    "position": 12,
    "headers": (("h", b"1"),),
    "key": b"k",
    "timestamp_ms": 7,
    "mechanism": "PLAIN",
    "http_status": HTTPStatus.NOT_FOUND,
    "status": "invalid_token",
    "scope": "s",
    "phase": "tcp",
    "reason": "too long",
    "record_errors": [(0, "no key")],
    "steps": "topics",
    "text": "a: 1",
    "topic": "t",
    "type": 99,
    "value": 2,
    "version": None,
    "what": "key",
}

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "the oldest pickle": lambda error: pickle.loads(pickle.dumps(error, 0)),
}


def exceptions() -> list[type[Exception]]:
    """Return every exception that the package defines, except those in modules that need pyspark."""
    for module in pkgutil.walk_packages(kafkawire.__path__, "kafkawire."):
        if "spark" not in module.name:
            import_module(module.name)
    return [cls for cls in subclasses(Exception) if cls.__module__.startswith("kafkawire.")]


def subclasses(cls: type[Exception]) -> Iterator[type[Exception]]:
    for child in cls.__subclasses__():
        yield child
        yield from subclasses(child)


def sample(cls: type[Exception]) -> Exception:
    """Return an exception with an argument for every parameter; a new parameter name needs an entry in `ARGUMENTS`."""
    if not inspect.isfunction(cls.__init__):
        return cls("text")
    _, *parameters = inspect.signature(cls.__init__).parameters
    return cls(*(ARGUMENTS[name] for name in parameters))


def state(error: BaseException) -> dict[str, Any]:
    """Return everything that code handling the error can see."""
    seen = {"type": type(error), "text": str(error), "repr": repr(error), "args": error.args, **vars(error)}
    return {**seen, **{name: getattr(error, name, None) for name in ("retriable", "fatal")}}


def assert_copies(error: Exception) -> None:
    for how, copied in COPIES.items():
        try:
            copy_of_it = copied(error)
        except TypeError as reason:
            pytest.fail(f"{error!r} by {how}: {reason}")
        assert state(copy_of_it) == state(error), f"{error!r} by {how}"


def test_every_exception_can_be_copied() -> None:
    found = exceptions()
    assert {getattr(errors, name) for name in errors.__all__} < set(found)
    for cls in found:
        assert_copies(sample(cls))


def test_copies_keep_what_the_first_call_made_of_its_arguments() -> None:
    assert_copies(BrokerError(3, "d"))
    assert_copies(BrokerError(30_000, "topic t"))
    assert_copies(PartialBatch(61, 5, None))
    assert_copies(EncodeError("", "too long"))


def test_a_copy_keeps_what_was_added_to_the_error() -> None:
    error = DecodeError("topics[0]", 4, "cut off")
    error.add_note("in the third request")
    assert_copies(error)
    assert copy.copy(error).__notes__ == ["in the third request"]


def test_an_error_that_is_raised_again_and_again() -> None:
    """A copy is raised each time, so no handler sees the traceback or the notes of an earlier one."""
    cause = ConnectFailed("a:1", "refused")
    kept = DecodeError("topics[0]", 4, "cut off")
    kept.add_note("in the third request")
    try:
        raise kept from cause
    except DecodeError as error:
        length = len(traceback.extract_tb(error.__traceback__))
    for _ in range(1_000):
        with pytest.raises(DecodeError) as caught:
            raise kept.again()
        caught.value.add_note("seen")
        assert state(caught.value) == state(kept) | {"__notes__": ["in the third request", "seen"]}
        assert caught.value.__cause__ is cause
        assert caught.value.__suppress_context__
        assert len(traceback.extract_tb(caught.value.__traceback__)) == length + 1
    assert len(traceback.extract_tb(kept.__traceback__)) == length
    alone = Closed("closed").again()
    assert (alone.__cause__, alone.__suppress_context__) == (None, False)


def test_an_error_of_a_codec_leaves_a_pool_of_processes() -> None:
    expected = r"^correlation_id at byte 0: 4 bytes are needed, but 2 are left$"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        damaged = pool.submit(codec("ResponseHeader", 0).parse, b"\0\0")
        with pytest.raises(DecodeError, match=expected) as caught:
            damaged.result()
    assert (caught.value.path, caught.value.offset) == ("correlation_id", 0)
