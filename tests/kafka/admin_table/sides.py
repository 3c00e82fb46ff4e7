"""The two brokers of the table, with the same security, and their administrators: Java's, Kafka's tools, and ours.

Anonymous clients and `admin` may do everything, `alice` only what ACLs permit.
"""

from __future__ import annotations

import enum
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kafkawire import KafkaWireError, TopicPartition, sync
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.protocol.uuids import METADATA_TOPIC_UUID, ZERO_UUID
from kafkawire.sdk.secret import Secret
from tests.kafka.admin_table.cases import TOOLS, Case, Java, Kept, Ours, Tool
from tests.kafka.admin_table.java_calls import JavaCalls
from tests.kafka.apache import RELEASE, ApacheKafka
from tests.kafka.secure import PASSWORDS
from tests.kafka.tool_runner import ToolRunner
from tests.ports import free_port

__all__ = ["Side", "our_side", "their_side"]

#: How long a call of an Admin may take, if its case does not say it: long enough for a busy machine.
API_TIMEOUT_MS = 20_000

_SASL = "SASL_PLAINTEXT"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

#: The settings of both brokers.
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "the key of all nodes",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f"{_PLAIN} {' '.join(f'user_{name}={chr(34)}{word}{chr(34)}' for name, word in PASSWORDS.items())};"
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": _SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}

#: Parts of outcomes that differ from run to run: times, ids, and where Java's Admin was when its time was over.
_MASKS = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d[.,]\d+)?Z?", "TIME"),
    (r"(?<!\d)1[78]\d{11}(?!\d)", "TIME"),
    (r"(TopicId: )\S+", r"\1ID"),
    (r"(Timed out waiting for a node assignment|TimeoutException: )[^\"]*", r"\1…"),
    (r"Call\(callName=(\w+)[^\"]*", r"Call(\1…"),
    # Kafka's text shows the objects in its memory that stand for the request.
    (r"Request Request\(.*? needs (\w+) permission", r"Request … needs \1 permission"),
    (r"Request \w+ needs (\w+) permission", r"Request … needs \1 permission"),
)


class Side:
    """One of the brokers and its administrators, alive inside a `with` block.

    Args:
        bootstrap: the address for anonymous clients.
        sasl: the address for clients that log in.
        data_dir: where the broker has its logs.
    """

    def __init__(self, bootstrap: str, sasl: str, data_dir: Path) -> None:
        self.bootstrap = bootstrap
        self._sasl = sasl
        self._addresses = {"": bootstrap, **dict.fromkeys(PASSWORDS, sasl)}
        self._data_dir = data_dir
        self._stack = ExitStack()
        self._kept: dict[str, Any] = {}

    def __enter__(self) -> Side:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-table-")))
            self._tools = stack.enter_context(ToolRunner(RELEASE))
            properties = {name: self._properties(name) for name in self._addresses}
            for name, lines in properties.items():
                text = "".join(f"{key}={value}\n" for key, value in lines.items())
                (self._folder / f"{name}.properties").write_text(text)
            self._java = stack.enter_context(JavaCalls(properties))
            self._admins = {name: stack.enter_context(self._our_admin(name)) for name in self._addresses}
            self._cluster_id = self._admins[""].describe_cluster().cluster_id or ""
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def operations(self) -> frozenset[str]:
        """The names of the operations of Java's Admin."""
        return self._java.operations

    def outcome(self, case: Case) -> str:
        """Return what an administrator gets, with the parts masked that differ from run to run."""
        match case.action:
            case Java():
                outcome = self._java.outcome(case.action)
            case Tool():
                outcome = self._said(case.action)
            case Ours():
                outcome = self._ours(case.action)
        text = json.dumps(outcome, indent=1, sort_keys=True, ensure_ascii=False)
        for listener, address in (("PLAINTEXT", self.bootstrap), (_SASL, self._sasl)):
            text = re.sub(rf"\b127\.0\.0\.1[: ]+{address.rpartition(':')[2]}\b", listener, text)
        text = text.replace(str(self._data_dir), "FOLDER").replace(self._cluster_id, "CLUSTER")
        text = text.replace(str(self._folder), "FILES")
        for pattern, mask in (*_MASKS, *case.masks):
            text = re.sub(pattern, mask, text, flags=re.MULTILINE)
        return text

    def _properties(self, name: str) -> dict[str, str]:
        limits = {"default.api.timeout.ms": str(API_TIMEOUT_MS), "request.timeout.ms": str(API_TIMEOUT_MS // 2)}
        given = {"bootstrap.servers": self._addresses[name]} | limits
        if not name:
            return given
        login = f'{_PLAIN} username="{name}" password="{PASSWORDS[name]}";'
        return given | {"security.protocol": _SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}

    def _our_admin(self, name: str) -> sync.Admin:
        if not name:
            return sync.Admin(self.bootstrap, api_timeout_ms=API_TIMEOUT_MS)
        return sync.Admin(
            self._addresses[name],
            api_timeout_ms=API_TIMEOUT_MS,
            security_protocol=_SASL,
            sasl_mechanism="PLAIN",
            sasl_username=name,
            sasl_password=PASSWORDS[name],
        )

    def _said(self, run: Tool) -> Any:
        for name, text in run.files.items():
            (self._folder / name).write_text(text)
        words = [str(self._folder / word[1:]) if word.startswith("@") else word for word in shlex.split(run.arguments)]
        # The tools with sub-commands expect these options before them, except for kafka-cluster.
        action = [words.pop(0)] if run.name == "cluster" else []
        address, config = self._addresses[run.client], self._folder / f"{run.client}.properties"
        words = [*action, "--bootstrap-server", address, "--command-config", str(config), *words]
        status, text = self._tools.run(TOOLS[run.name], *words)
        lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
        return {"status": status, "lines": sorted(map(str.strip, lines)) if run.is_unordered else lines}

    def _ours(self, call: Ours) -> Any:
        admin = self._admins[call.client]
        limited = admin if call.within_ms is None else admin.within(call.within_ms)
        arguments, options = self._filled(call.arguments), self._filled(call.options)
        try:
            result = getattr(limited, call.call)(*arguments, **options)
        except KafkaWireError as error:
            return {"raised": _text(error)} | ({} if error.results is None else {"results": _shown(error.results)})
        if call.keep is not None:
            self._kept[call.keep[0]] = call.keep[1](result)
        return _shown(result)

    def _filled(self, value: Any) -> Any:
        """Return an argument with what was kept in place of `Kept`."""
        if isinstance(value, Kept):
            return self._kept[value.name]
        if type(value) in (tuple, list):
            return type(value)(self._filled(each) for each in value)
        if type(value) is dict:
            return {self._filled(key): self._filled(each) for key, each in value.items()}
        return value


#: A line of a Java stack trace.
_FRAME = re.compile(r"\tat |\t\.\.\. \d+ ")

#: Ids that stand for something, or that a case has chosen.
_SHOWN_IDS = {ZERO_UUID, METADATA_TOPIC_UUID, b"\7" * 16}


#: Numbers between these are the present time, in milliseconds.
_TIME_MIN_MS, _TIME_MAX_MS = 1_700_000_000_000, 1_900_000_000_000


def _text(error: KafkaWireError) -> str:
    return f"{type(error).__name__}: {error}"


def _shown(value: Any) -> Any:
    """Return a value of our Admin as JSON."""
    match value:
        case None | bool() | str() if not isinstance(value, enum.Enum):
            return value
        case enum.Enum():
            return value.name
        case int() | float():
            return "TIME" if _TIME_MIN_MS < value < _TIME_MAX_MS else value
        case Secret():
            return "SECRET"
        case bytes() | bytearray() | memoryview():
            return (
                bytes(value).hex()
                if bytes(value) in _SHOWN_IDS
                else "ID"
                if len(value) == 16
                else f"{len(value)} bytes"
            )
        case KafkaWireError():
            return _text(value)
        case TopicPartition():
            return f"{value.topic}-{value.partition}"
        case Mapping():
            return {_key(key): _shown(each) for key, each in value.items()}
        case tuple() if fields := getattr(value, "_fields", ()):
            return {name: _shown(getattr(value, name)) for name in fields}
        case set() | frozenset():
            return sorted((_shown(each) for each in value), key=_key)
        case list() | tuple():
            shown = [_shown(each) for each in value]
            return sorted(shown, key=_key) if any(isinstance(each, dict) for each in shown) else shown
    names = getattr(value, "__slots__", None) or getattr(value, "__dict__", None)
    assert names, f"cannot show {type(value)}"
    return {name.lstrip("_"): _shown(getattr(value, name)) for name in names}


def _key(key: Any) -> str:
    shown = _shown(key)
    return shown if isinstance(shown, str) else json.dumps(shown, sort_keys=True)


@contextmanager
def their_side() -> Iterator[Side]:
    """Run Apache Kafka, without the feature that the reference broker lacks."""
    sasl = f"127.0.0.1:{free_port()}"
    protocols = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_SASL}:{_SASL},CONTROLLER:PLAINTEXT",
        "share.coordinator.state.topic.num.partitions": "2",
    }
    features = {"eligible.leader.replicas.version": 0}
    with (
        ApacheKafka(settings=_SETTINGS | protocols, listeners={_SASL: sasl}, features=features) as node,
        Side(node.bootstrap, sasl, node.data_dir) as side,
    ):
        yield side


@contextmanager
def our_side() -> Iterator[Side]:
    """Run the reference broker."""
    with tempfile.TemporaryDirectory(prefix="kafkawire-table-broker-") as folder:
        options: dict[str, Any] = {
            **_SETTINGS,
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:0,{_SASL}://127.0.0.1:0",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_SASL}:{_SASL}",
            "share.coordinator.state.topic.num.partitions": "2",
        }
        with BackgroundBroker(Path(folder), **options) as broker:
            addresses = {name: str(address) for name, address in broker.addresses.items()}
            with Side(addresses["PLAINTEXT"], addresses[_SASL], Path(folder)) as side:
                yield side
