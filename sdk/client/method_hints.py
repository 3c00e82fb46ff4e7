"""Map the methods and arguments of other Kafka clients to their counterparts here, or to advice if there are none.

For each of these names, a client has an attribute that raises `AttributeError` with the hint. `dir` does not list it,
so completion and `Mock(spec=…)` do not see it, and `hasattr` returns False. `__getattr__` on the class would be
shorter, but makes CPython 3.11 look up every attribute more slowly, at a cost of 12 of the 52 ns that a `send` takes.
Code that searches the dictionaries of classes, such as `isinstance` with a runtime-checkable protocol, still sees the
names.

The methods of a client are wrapped to explain calls with unknown arguments. `send` bypasses the wrapper: the extension
explains its own calls (`engines/native.pyx`).

Source: the methods of Apache Kafka 4.3 (Java), confluent-kafka 2.16, kafka-python 3.0, aiokafka 0.14.
"""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar, cast

from kafkawire.sdk.near_names import did_you_mean

__all__ = [
    "ADMIN",
    "ARGUMENTS",
    "BROKER",
    "CONSUMER",
    "DELIVERY",
    "FORMS",
    "PRODUCER",
    "SHARE_CONSUMER",
    "Hinting",
    "HintingClass",
    "absent",
    "add_hints",
    "advice_on",
    "explaining",
    "refusal",
]

#: Advice for methods of other clients: maps each piece of advice to the names that it is for, separated by spaces.
PRODUCER: Final[Mapping[str, str]] = {
    "use send(topic, value, key=…), which never waits": "produce",
    "send returns a Delivery: await it, or call its result()": "send_and_wait",
    "there is nothing to poll: callbacks run as deliveries are settled; flush waits for all": "poll",
    "send builds the batches: use send_many for many records": "create_batch produce_batch send_batch",
    "use close": "stop",
    "close(flush=False) fails the unacknowledged records; "
    "abort_transaction fails those of a transaction": "abort purge",
    "start does this": "init_transactions",
    "use send_offsets": "send_offsets_to_transaction",
    "use describe_topics or list_topics of Admin, or partitions_for of Consumer": (
        "list_topics partitions_for partitions_for_topic"
    ),
    "start raises if no server can be reached": "bootstrap_connected",
    "create a new producer with sasl_username=… and sasl_password=…": "set_sasl_credentials",
}

CONSUMER: Final[Mapping[str, str]] = {
    "iterate over the consumer, or use getmany(timeout_ms=…)": "consume getone next poll",
    "use close": "stop",
    "subscribe replaces the subscription; close ends it": "unsubscribe",
    "assign replaces the partitions, and also takes an empty list": "incremental_assign incremental_unassign unassign",
    "use commit": "commit_async commit_sync",
    "set enable_auto_finish=False, and call finish with the records that are done": "store_offsets",
    "seek to the offsets that committed returns": "seek_to_committed",
    "use beginning_offsets and end_offsets": "get_watermark_offsets",
    "use lag, or end_offsets": "highwater last_stable_offset",
    "use group_metadata": "consumer_group_metadata memberid",
    "use partitions_for": "partitions_for_topic",
    "use list_topics of Admin": "list_topics topics",
    "use seek_to_time": "seek_to_timestamp",
    "use metrics() and health()": "last_poll_timestamp",
    "the metadata is refreshed as needed; metadata_max_age_ms=… sets how often": "force_metadata_update",
    "use lag": "current_lag",
    "use close, from another thread if necessary: pending reads then end": "wakeup",
    "a group rebalances when a member is closed or changes its subscription": "enforce_rebalance",
    "create a new consumer with sasl_username=… and sasl_password=…": "set_sasl_credentials",
    "start raises if no server can be reached": "bootstrap bootstrap_connected",
}

SHARE_CONSUMER: Final[Mapping[str, str]] = {
    "iterate over the share consumer, or use getmany(timeout_ms=…)": "consume getone next poll",
    "use accept, release, reject or renew of the delivery": "acknowledge",
    "use commit, which returns the outcomes": "commit_async commit_sync",
    "pass on_acknowledged to ShareConsumer": "set_acknowledgement_commit_callback",
    "use close": "stop",
    "subscribe replaces the subscription; close ends it": "unsubscribe",
    "use close, from another thread if necessary: pending reads then end": "wakeup",
    "the group has no committed offsets: alter_share_group_offsets of Admin moves its start offsets": (
        "committed position seek seek_to_beginning seek_to_end"
    ),
    "the brokers assign the partitions, which several consumers share": "assign assignment pause resume",
}

ADMIN: Final[Mapping[str, str]] = {
    "use list_groups": "list_consumer_groups",
    "use describe_groups": "describe_classic_groups describe_consumer_groups",
    "use delete_groups": "delete_consumer_groups",
    "use remove_group_members": "remove_members_from_consumer_group",
    "use list_groups(types=['share'])": "list_share_groups",
    "use list_groups(types=['streams'])": "list_streams_groups",
    "use list_group_offsets, or list_group_offsets_of for several groups": "list_consumer_group_offsets",
    "use alter_group_offsets": "alter_consumer_group_offsets",
    "use delete_group_offsets": "delete_consumer_group_offsets",
    "use list_offsets, then alter_group_offsets": "reset_group_offsets",
    "use list_offsets": "list_partition_offsets",
    "use incremental_alter_configs: None returns an entry to its default": "reset_configs",
    "use list_config_resources(ConfigResourceType.CLIENT_METRICS)": "list_client_metrics_resources",
    "use describe_topics(…, include_eligible_leaders=True)": "describe_topic_partitions",
    "use describe_groups, whose results name the coordinator": "find_coordinator",
    "use describe_cluster": "cluster_id",
    "use describe_features": "api_versions get_broker_version_data",
    "there is nothing to poll: each method returns its result": "poll",
    "use close": "stop",
    "create_topics returns once the topics are created": "wait_for_topics",
    "use create_topics": "create_topic",
    "use delete_topics": "delete_topic",
    "use describe_topics": "describe_topic",
    "use describe_delegation_tokens": "describe_delegation_token",
    "use elect_leaders": "perform_leader_election",
    "use describe_acls": "list_acls",
    "create a new admin with sasl_username=… and sasl_password=…": "set_sasl_credentials",
}


#: Advice for attributes of the objects in other clients that correspond to a `Delivery`.
DELIVERY: Final[Mapping[str, str]] = {
    "await the delivery, or call result(timeout_ms=…)": "get",
    "use add_done_callback, or pass on_delivery to send": "add_both add_callback add_errback",
    "use done to see whether it is settled, and exception() to see why it failed": "error failed is_done succeeded",
    "a record that was sent cannot be withdrawn": "cancel cancelled",
    "await the delivery, or call result(), for the topic, partition, offset and timestamp_ms": (
        "offset partition timestamp topic value"
    ),
}

#: Advice for names that a test broker does not have.
BROKER: Final[Mapping[str, str]] = {
    "use bootstrap": "address bootstrap_server bootstrap_servers get_bootstrap_server host port servers url",
    "use Admin of kafkawire or kafkawire.sync": "create_topic create_topics delete_topics list_topics",
    "create another broker, or use a separate topic for each test": "clear reset",
}

#: Advice for arguments of other clients' methods, written as `method.argument`.
ARGUMENTS: Final[Mapping[str, str]] = {
    "use timestamp_ms, in milliseconds": "send.timestamp send_arrow.timestamp",
    "use on_delivery, which is called with only the Delivery": "send.callback",
    "the argument is called value": "send.data send.message send.msg send.payload",
    "each value becomes a record without a key; use send for keys": "send_many.keys send_many.key",
    "the argument is called values": "send_many.messages send_many.records",
    "use group: the value that Consumer.group_metadata returns": "send_offsets.group_id send_offsets.group_metadata",
    "the argument is called max_records": "getmany.num_messages getmany.max_messages",
    "pass topics as separate arguments or in one list: subscribe('a', 'b')": "subscribe.topic subscribe.topics",
    "the listener is an argument of Consumer": (
        "subscribe.callback subscribe.listener subscribe.on_assign subscribe.on_lost subscribe.on_revoke"
    ),
    "pass partitions as separate arguments or in one list, not as a keyword argument": (
        "assign.partitions beginning_offsets.partitions committed.partition committed.partitions "
        "delete_group_offsets.partitions describe_producers.partitions elect_leaders.topic_partitions "
        "end_offsets.partitions list_group_offsets.partitions list_group_offsets.topic_partitions "
        "pause.partitions resume.partitions seek_to_beginning.partitions seek_to_end.partitions "
        "seek_to_time.partitions"
    ),
    "committed returns OffsetAndMetadata": "committed.metadata",
    "commit returns or raises once the brokers have responded": "commit.asynchronous commit.callback",
    "the argument is called offsets: commit({partition: record.offset + 1})": "commit.message",
    "use place: an offset or a datetime": "seek.offset seek.timestamp",
    "use timestamps, keyed by partition": "list_offsets.topic_partition_offsets list_offsets.topic_partitions",
    "use times, keyed by partition": "offsets_for_times.timestamps",
    "records has no timeout: use stop_at_end=True or until=…": "records.timeout records.timeout_ms",
    "batches waits indefinitely: use getbatches(timeout_ms=…)": "batches.timeout batches.timeout_ms",
    "close commits finished records if enable_auto_commit is on": "close.autocommit",
    "pass topics as separate arguments or in one list: create_topics('a', NewTopic('b', partitions=3))": (
        "create_topics.new_topics create_topics.topics"
    ),
    "set attributes of NewTopic instead: create_topics(NewTopic('a', partitions=3))": (
        "create_topics.configs create_topics.num_partitions create_topics.partitions create_topics.replication_factor"
    ),
    "pass names as separate arguments or in one list, not as a keyword argument": (
        "delete_groups.group_ids delete_topics.topic_names delete_topics.topics describe_groups.group_ids "
        "describe_topics.topic_names describe_topics.topics describe_transactions.transactional_ids "
        "fence_producers.transactional_ids list_config_resources.resource_types"
    ),
    "the coordinator is looked up": (
        "alter_group_offsets.group_coordinator_id delete_group_offsets.group_coordinator_id "
        "delete_groups.group_coordinator_id describe_groups.group_coordinator_id "
        "list_group_offsets.group_coordinator_id remove_group_members.group_coordinator_id"
    ),
    "the error that is raised has the results of all items": ("create_topics.raise_errors delete_topics.raise_errors"),
    "use the errors of the results, or all, which raises the first one": (
        "create_partitions.raise_errors elect_leaders.raise_errors"
    ),
    "create_topics returns once the topics are created": "create_topics.wait_for_metadata",
    "use describe_topics": "list_topics.topic",
    "use states, types or protocol_types": (
        "list_groups.group_states list_groups.group_types list_groups.states_filter list_groups.types_filter"
    ),
    "all brokers are asked": "list_groups.broker_ids list_transactions.broker_ids",
    "pass a single resource: describe_configs(ConfigResourceType.TOPIC, 'a'); or use describe_configs_of": (
        "describe_configs.config_resources describe_configs.resources"
    ),
    "pass a single resource and its changes, or use incremental_alter_configs_of": (
        "incremental_alter_configs.config_resources incremental_alter_configs.resources"
    ),
    "use group_id": "list_group_offsets.group",
    "pass a single group id, or use list_group_offsets_of": "list_group_offsets.group_specs",
    "the argument is called before: {partition: offset}, with None to delete all records": (
        "delete_records.records_to_delete delete_records.topic_partition_offsets"
    ),
    "pass instance ids as separate arguments or in one list; or use member_ids": "remove_group_members.members",
    "use states, producer_ids, longer_than_ms or pattern": (
        "list_transactions.duration_filter_ms list_transactions.producer_id_filters list_transactions.state_filters "
        "list_transactions.transactional_id_pattern"
    ),
    "use node_id": (
        "describe_producers.broker_id find_hanging_transactions.broker_ids find_hanging_transactions.broker_id "
        "describe_log_dirs.brokers"
    ),
    "use silent_for_ms": "find_hanging_transactions.max_transaction_timeout_ms",
    "pass the partition, producer_id=…, producer_epoch=… and coordinator_epoch=…": "abort_transaction.spec",
    "pass the changes to incremental_alter_configs, or with the ConfigResource to incremental_alter_configs_of": (
        "ConfigResource.configs ConfigResource.incremental_configs ConfigResource.set_config"
    ),
    "the argument is called resource_type": "ConfigResource.restype",
    "the argument is called name": "NewTopic.topic",
    "the argument is called partitions": "NewTopic.num_partitions NewTopic.partition_count",
    "the argument is called configs": "NewTopic.config NewTopic.topic_configs",
    "the argument is called assignments": "NewTopic.replica_assignment NewTopic.replica_assignments",
}

#: Advice for calls with arguments that are missing or too many, keyed by method.
FORMS: Final[Mapping[str, str]] = {
    "alter_configs": "for several resources, or for changes to single entries, use incremental_alter_configs_of",
    "describe_configs": "for several resources, use describe_configs_of",
    "incremental_alter_configs": "for several resources, use incremental_alter_configs_of",
    "list_topics": "for single topics, use describe_topics",
}

#: Names of time limits in other clients, whatever the unit.
_TIMEOUTS: Final = frozenset({"operation_timeout", "request_timeout", "timeout", "timeout_ms", "timeout_s"})

#: The text of the errors with which Python and Cython reject a call before it runs.
_REFUSED: Final = re.compile(r"[\w.<>]*\(\) (?P<reason>(?:got|takes|missing) .*)")
_UNEXPECTED: Final = re.compile(r"unexpected keyword argument '(\w+)'")

Called = TypeVar("Called", bound=Callable[..., Any])


def advice_on(name: str, hints: Mapping[str, str]) -> str | None:
    """Return the advice for a name used by another client; None if the hints do not contain the name.

    Args:
        name: the name.
        hints: maps each piece of advice to the names in other clients that it is for, separated by spaces.
    """
    return next((advice for advice, names in hints.items() if name in names.split()), None)


def refusal(error: TypeError, owner: str, method: Callable[..., Any]) -> TypeError:
    """Return an error about a call's arguments with advice added; return any other error unchanged.

    Args:
        error: the error that the call raised.
        owner: the method's class, under the name that applications use.
        method: the called method, as written in Python.
    """
    refused = _REFUSED.fullmatch(str(error))
    if refused is None:
        return error
    name = owner if method.__name__ == "__new__" else method.__name__
    signature = inspect.signature(method)
    taken = [each.replace(annotation=each.empty) for each in [*signature.parameters.values()][1:]]
    unexpected = _UNEXPECTED.search(refused["reason"])
    if unexpected is None:
        form = signature.replace(parameters=taken, return_annotation=signature.empty)
        call = name if name == owner else f"{owner}.{name}"
        better = f"; {FORMS[name]}" if owner == "Admin" and name in FORMS else ""
        return TypeError(f"{call}() {refused['reason']}; it takes {form}{better}")
    keyword = unexpected[1]
    known = [each.name for each in taken]
    advice = advice_on(f"{name}.{keyword}", ARGUMENTS)
    if advice is None and keyword in _TIMEOUTS:
        limited = "the call is limited by the option api_timeout_ms"
        if owner == "Admin":
            limited += ", or by within: admin.within(5_000)"
        advice = "use timeout_ms, in milliseconds" if "timeout_ms" in known else limited
    if advice is None:
        advice = f"there is no such argument{did_you_mean(keyword, known)}"
    return TypeError(f"{name}: {keyword}=…: {advice}")


def explaining(owner: str, method: Called) -> Called:
    """Wrap a method so that it raises `refusal` for unknown arguments."""
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*given: Any, **named: Any) -> Any:
            try:
                work = method(*given, **named)
            except TypeError as error:
                raise refusal(error, owner, method) from None
            return await work

        return cast(Called, awaited)

    @wraps(method)
    def explained(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # raised inside the method
            raise refusal(error, owner, method) from None

    return cast(Called, explained)


def absent(owner: str, name: str, hints: Mapping[str, str], given: object = None) -> AttributeError:
    """Return the error for an attribute that a class does not have.

    Args:
        owner: the class.
        name: the attribute's name.
        hints: maps each piece of advice to the names in other clients that it is for, separated by spaces.
        given: the object on which the attribute was accessed.
    """
    advice = advice_on(name, hints)
    text = f"{owner!r} object has no attribute {name!r}" if advice is None else f"{owner} has no {name}: {advice}"
    return AttributeError(text, name=name, obj=given)


class _Hint:
    """An attribute that a class does not have.

    Args:
        name: its name in another client.
        advice: the advice.
    """

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, instance: object, owner: type) -> NoReturn:
        given = owner if instance is None else instance
        raise AttributeError(f"{owner.__name__} has no {self._name}: {self._advice}", name=self._name, obj=given)


class HintingClass(ABCMeta):
    """The metaclass of clients, which does not list hints. Abstract base classes may be mixed in."""

    def __dir__(cls) -> list[str]:
        return _without_hints(cls, super().__dir__())


class Hinting(metaclass=HintingClass):
    """A client that gives hints for the methods of other clients; a derived class may have methods with these names.

    Args:
        hints: maps each piece of advice to the names in other clients that it is for, separated by spaces; None for an
            application's class, whose methods are not wrapped.
    """

    def __init_subclass__(cls, hints: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if hints is None:
            return
        owner = cls.__name__.removesuffix("Face")
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, explaining(owner, method))
        add_hints(cls, hints)
        if hasattr(cls, "__aenter__") and not hasattr(cls, "__enter__"):
            add_hints(cls, {f"use `async with`, or `with` and {owner} of kafkawire.sync": "__enter__"})
        elif hasattr(cls, "__enter__") and not hasattr(cls, "__aenter__"):
            add_hints(cls, {f"use `with`, or `async with` and {owner} of kafkawire": "__aenter__"})

    def __dir__(self) -> list[str]:
        return _without_hints(self, super().__dir__())


def add_hints(cls: type, hints: Mapping[str, str]) -> None:
    """Give a class attributes that raise `AttributeError` with a hint.

    Args:
        cls: the class.
        hints: maps each piece of advice to the names that it is for, separated by spaces.
    """
    for advice, names in hints.items():
        for name in names.split():
            setattr(cls, name, _Hint(name, advice))


def _without_hints(given: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if not isinstance(inspect.getattr_static(given, name, None), _Hint)]
