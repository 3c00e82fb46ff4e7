"""Calling another client library's method raises an error with advice; in every other respect, there is no such method.

Method: compare the tables with both kinds of clients, asyncio and blocking, and with the public methods of the
installed kafka-python, which runs in a separate process because it uses deprecated functions.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
import re
import subprocess
import sys
from operator import attrgetter
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

import kafkawire
from kafkawire import ConfigResource, NewTopic, sync
from kafkawire.sdk.client.method_hints import ADMIN, ARGUMENTS, BROKER, CONSUMER, DELIVERY, PRODUCER
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.testing import Broker

TABLES = {"Producer": PRODUCER, "Consumer": CONSUMER, "Admin": ADMIN}

FACES: list[Any] = [getattr(module, name) for name in TABLES for module in (kafkawire, sync)]

LIST_METHODS = """
import json, kafka
clients = {"Producer": kafka.KafkaProducer, "Consumer": kafka.KafkaConsumer, "Admin": kafka.KafkaAdminClient}
print(json.dumps({face: [name for name in dir(client) if callable(getattr(client, name)) and name[0] != "_"]
                  for face, client in clients.items()}))
"""

#: Named tuples whose constructors give hints.
VALUES: list[Any] = [NewTopic, ConfigResource]

#: Methods of kafka-python that have no advice: internals, and methods that no user has missed so far.
UNANSWERED = {
    "Producer": {"max_usable_produce_magic"},
    "Consumer": set(),
    "Admin": set(),
}


def names(face: Any) -> set[str]:
    return {name for given in TABLES[face.__name__].values() for name in given.split()}


@pytest.mark.parametrize("face", FACES)
def test_a_method_of_another_client_names_what_to_use(face: Any) -> None:
    client = face("broker:9092")
    for advice, given in TABLES[face.__name__].items():
        for name in given.split():
            text = re.escape(f"{face.__name__} has no {name}: {advice}")
            for on in (client, face):
                with pytest.raises(AttributeError, match=f"^{text}$") as caught:
                    getattr(on, name)
                assert (caught.value.name, caught.value.obj) == (name, on)
    with pytest.raises(AttributeError, match=f"{face.__name__}' object has no attribute 'nonsense'"):
        attrgetter("nonsense")(client)


@pytest.mark.parametrize("face", FACES)
def test_nothing_else_sees_the_names(face: Any) -> None:
    client = face("broker:9092")
    hinted = names(face)
    for on in (client, face):
        assert not any(hasattr(on, name) for name in hinted)
        assert not hinted & set(dir(on))
        assert {"close", "client_id", "start"} <= set(dir(on))
        assert not hinted & {name for name, _ in inspect.getmembers_static(on)}
    for mocked in (Mock(spec=face), create_autospec(face)):
        assert not any(hasattr(mocked, name) for name in hinted)
    assert type(copy.copy(client)) is face

    class Derived(face):
        def poll(self) -> str:
            return "its own"

    derived = Derived("broker:9092")
    derived.stop = "set"
    assert (derived.poll(), derived.stop) == ("its own", "set")
    assert {"poll", "stop"} <= set(dir(derived))


@pytest.mark.parametrize("name", TABLES)
def test_the_advice_holds(name: str) -> None:
    """Every method that the advice names exists, on the client itself or on another client named in the advice."""
    face = getattr(kafkawire, name)
    for advice in TABLES[name]:
        faces = [face, *(getattr(kafkawire, other) for other in TABLES if other in advice)]
        for method in re.findall(
            r"\b[a-z]+_[a-z_]+\b(?!=)|(?<=use )[a-z_]+|^(?:assign|send|start|subscribe)\b", advice
        ):
            assert any(hasattr(each, method) for each in faces), (advice, method)


def test_kafka_python_is_covered() -> None:
    listed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIST_METHODS], capture_output=True, text=True, check=True
    )
    for name, methods in json.loads(listed.stdout).items():
        face = getattr(kafkawire, name)
        assert set(methods) - set(dir(face)) - names(face) == UNANSWERED[name]


def argument_cases() -> list[tuple[Any, str, str, str]]:
    """Return, for every table entry, a client class, a method, another library's argument, and the advice."""
    cases = []
    for advice, given in ARGUMENTS.items():
        for method, argument in (each.split(".") for each in given.split()):
            value = next((each for each in VALUES if each.__name__ == method), None)
            faces = [face for face in FACES if hasattr(face, method)] if value is None else [value]
            assert faces, method
            cases += [(face, method, argument, advice) for face in faces]
    return cases


def called(face: Any, method: str, *given: object, **named: object) -> object:
    """Call a method of a client that was not started; arguments are checked before that."""
    if face in VALUES:
        return face(*given, **named)
    result = getattr(face("broker:9092"), method)(*given, **named)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@pytest.mark.parametrize(("face", "method", "argument", "advice"), argument_cases())
def test_an_argument_of_another_client_names_what_to_use(face: Any, method: str, argument: str, advice: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(f'{method}: {argument}=…: {advice}')}$"):
        called(face, method, **{argument: None})
    function = face.__new__ if face in VALUES else getattr(face, method)
    parameter = inspect.signature(function).parameters.get(argument)
    assert parameter is None or parameter.kind is parameter.VAR_POSITIONAL


@pytest.mark.parametrize(
    ("name", "method", "given", "named", "text"),
    [
        ("Producer", "flush", (), {"timeout": 5}, r"flush: timeout=…: use timeout_ms, in milliseconds"),
        ("Producer", "close", (5,), {}, r"Producer.close\(\) takes 1 .*; it takes \(\*, flush=True, timeout_ms=None\)"),
        (
            "Consumer",
            "getmany",
            (1,),
            {"timeout_ms": 1},
            r"Consumer.getmany\(\) got multiple .*; it takes \(timeout_ms=0, .*",
        ),
        ("Consumer", "getmany", (), {"timeout": 1}, r"getmany: timeout=…: use timeout_ms, in milliseconds"),
        ("Consumer", "getmany", (), {"max_record": 1}, r"getmany: max_record=…: .*; did you mean max_records\?"),
        ("Consumer", "seek", (("t", 0),), {}, r"Consumer.seek\(\) missing 1 .*; it takes \(partition, place\)"),
        ("Consumer", "commit", (), {"nonsense": 1}, r"commit: nonsense=…: there is no such argument"),
        (
            "Consumer",
            "committed",
            (),
            {"timeout": 1},
            "committed: timeout=…: the call is limited by the option api_timeout_ms",
        ),
        (
            "Admin",
            "create_topics",
            ("a",),
            {"timeout_ms": 1},
            r"create_topics: timeout_ms=…: .* the option api_timeout_ms, or by within: admin.within\(5_000\)",
        ),
        (
            "Admin",
            "describe_configs",
            (),
            {},
            r"Admin.describe_configs\(\) .*; it takes \(resource_type, name, \*keys, include_synonyms=False, .*\); "
            "for several resources, use describe_configs_of",
        ),
        (
            "Admin",
            "incremental_alter_configs",
            ([],),
            {},
            ".*; for several resources, use incremental_alter_configs_of",
        ),
        ("Admin", "alter_configs", ([],), {}, ".*; for several resources, .* use incremental_alter_configs_of"),
        ("Admin", "list_topics", ("t",), {}, ".*; for single topics, use describe_topics"),
    ],
)
def test_a_call_that_is_refused(name: str, method: str, given: Any, named: Any, text: str) -> None:
    for module in (kafkawire, sync):
        with pytest.raises(TypeError, match=f"^{text}$") as caught:
            called(getattr(module, name), method, *given, **named)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer", "ShareConsumer"])
def test_the_wrong_kind_of_with_block(name: str) -> None:
    """From Python 3.14 on, Python itself names the other kind, and does not show our hint."""
    options = {"group_id": "g"} if name == "ShareConsumer" else {}
    awaiting, blocking = getattr(kafkawire, name)("b:1", **options), getattr(sync, name)("b:1", **options)
    hint = f"{name} has no __enter__: use `async with`, or `with` and {name} of kafkawire.sync"
    with pytest.raises((AttributeError, TypeError), match=rf"^{hint}$|Did you mean to use 'async with'\?$"), awaiting:
        pass
    hint = f"{name} has no __aenter__: use `with`, or `async with` and {name} of kafkawire"
    with pytest.raises((AttributeError, TypeError), match=rf"^{hint}$|Did you mean to use 'with'\?$"):
        asyncio.run(entered(blocking))


async def entered(client: Any) -> None:
    async with client:
        pass


def test_new_topics() -> None:
    assert NewTopic("a", 2, configs={"b": "c"}) == ("a", 2, -1, {"b": "c"}, {})
    for make in (copy.copy, copy.deepcopy, lambda topic: pickle.loads(pickle.dumps(topic))):
        assert make(NewTopic("a", partitions=2)) == NewTopic("a", 2)
    with pytest.raises(TypeError, match=r"^NewTopic\(\) missing .*; it takes \(name, partitions=-1, .*\)$"):
        NewTopic()  # type: ignore[call-arg]  # wrong


def test_an_error_of_a_call_that_has_begun_stays_as_it_is() -> None:
    class Partition:
        def __iter__(self) -> Any:
            raise TypeError("its own() missing the point")

    with pytest.raises(TypeError, match=r"^its own\(\) missing the point$"):
        sync.Consumer("broker:9092").assign(Partition())  # type: ignore[arg-type]  # wrong


def test_a_started_producer_explains_too() -> None:
    """The `send` of a started producer is the engine's own function."""
    with Broker(ephemeral=True) as broker, sync.Producer(broker.bootstrap) as producer:
        send: Any = producer.send
        for named, text in [
            ({"timestamp": 1}, "send: timestamp=…: use timestamp_ms, in milliseconds"),
            ({"callback": print}, "send: callback=…: use on_delivery, which is called with only the Delivery"),
            ({"on_delivry": print}, r"send: on_delivry=…: there is no such argument; did you mean on_delivery\?"),
        ]:
            with pytest.raises(TypeError, match=f"^{text}$"):
                send("a", b"", **named)
        with pytest.raises(
            TypeError, match=r"^Producer.send\(\) takes .*; it takes \(topic, value=None, \*, key=None, .*"
        ):
            send("a", b"", b"key")
        with pytest.raises(TypeError, match=r"^Producer.send\(\) .*; it takes \(topic, "):
            send()
        assert send("a", b"").result().offset == 0


def test_deliveries() -> None:
    with Broker(ephemeral=True) as broker, sync.Producer(broker.bootstrap) as producer:
        delivery: Any = producer.send("a", b"")
    for advice, given in DELIVERY.items():
        for name in given.split():
            with pytest.raises(AttributeError, match=f"^{re.escape(f'Delivery has no {name}: {advice}')}$") as caught:
                getattr(delivery, name)
            assert (caught.value.name, caught.value.obj) == (name, delivery)
            assert not hasattr(delivery, name)
            assert name not in dir(Delivery)
    with pytest.raises(AttributeError, match=r"^'Delivery' object has no attribute 'nonsense'$"):
        delivery.nonsense  # noqa: B018  # it raises
    assert delivery.result().offset == 0
    assert delivery.done


def test_brokers() -> None:
    broker: Any = Broker(ephemeral=True)
    for advice, given in BROKER.items():
        for name in given.split():
            with pytest.raises(AttributeError, match=f"^{re.escape(f'Broker has no {name}: {advice}')}$"):
                getattr(broker, name)


@pytest.mark.parametrize("face", FACES)
def test_wrapped_methods_are_what_they_were(face: Any) -> None:
    for name, method in inspect.getmembers_static(face, inspect.isfunction):
        if not name.startswith("_"):
            inner = inspect.unwrap(method)
            assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(inner)
            assert (method.__name__, method.__doc__) == (name, inner.__doc__)

    class Derived(face):
        def flush(self, timeout: float) -> float:
            return timeout

    assert Derived("broker:9092").flush(timeout=5) == 5
    assert not hasattr(Derived.flush, "__wrapped__")
