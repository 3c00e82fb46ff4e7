"""A method of another client is answered with what to use here, and for everything else it does not exist.

Method: the tables are held against the faces, asyncio and blocking, and against the public methods of the installed
kafka-python, asked in a process of its own because it uses deprecated functions.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import subprocess
import sys
from operator import attrgetter
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

import kafkawire
from kafkawire import sync
from kafkawire.sdk.client.method_hints import ADMIN, CONSUMER, PRODUCER

TABLES = {"Producer": PRODUCER, "Consumer": CONSUMER, "Admin": ADMIN}

FACES: list[Any] = [getattr(module, name) for name in TABLES for module in (kafkawire, sync)]

LIST_METHODS = """
import json, kafka
clients = {"Producer": kafka.KafkaProducer, "Consumer": kafka.KafkaConsumer, "Admin": kafka.KafkaAdminClient}
print(json.dumps({face: [name for name in dir(client) if callable(getattr(client, name)) and name[0] != "_"]
                  for face, client in clients.items()}))
"""

#: Methods of kafka-python without an answer: how it works inside, and what nobody has missed yet.
UNANSWERED = {
    "Producer": {"max_usable_produce_magic"},
    "Consumer": set(),
    "Admin": {
        "abort_transaction",
        "api_versions",
        "describe_topic_partitions",
        "find_hanging_transactions",
        "get_broker_version_data",
        "list_config_resources",
    },
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
    assert not any(hasattr(mocked, name) for name in hinted for mocked in (Mock(spec=face), create_autospec(face)))
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
    """It names methods that there are, of the face or of one that it names."""
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
