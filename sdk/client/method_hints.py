"""What methods of other Kafka clients are called here, or what to do if there is no such method.

A face has an attribute for each of these names that raises `AttributeError` with the hint, and that nothing lists: not
`dir`, so neither completion nor `Mock(spec=…)`. `hasattr` says no. `__getattr__` on the class would be shorter, but
CPython 3.11 then looks up every attribute in a slower way: 12 ns of the 52 that a `send` takes. What searches the
dictionaries of classes sees the names all the same, as `isinstance` with a runtime-checkable protocol does.

Source: the methods of Apache Kafka 4.3 (Java), confluent-kafka 2.16, kafka-python 3.0, aiokafka 0.14.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping
from inspect import getattr_static
from typing import Any, Final, NoReturn

__all__ = ["ADMIN", "CONSUMER", "PRODUCER", "SUBSCRIBE", "Hinting", "HintingClass", "refuse_keywords"]

#: Names of other clients, separated by spaces, by what to do here.
PRODUCER: Final[Mapping[str, str]] = {
    "use send(topic, value, key=…), which never waits": "produce",
    "send returns a Delivery: await it, or call its result()": "send_and_wait",
    "nothing needs to be polled: callbacks run as deliveries are settled; flush waits for all": "poll",
    "send makes the batches: use send_many for many records": "create_batch produce_batch send_batch",
    "use close": "stop",
    "close(flush=False) fails what is not acknowledged, abort_transaction what a transaction has sent": "abort purge",
    "start does it": "init_transactions",
    "use send_offsets": "send_offsets_to_transaction",
    "use describe_topics or list_topics of Admin, or partitions_for of Consumer": "list_topics partitions_for",
    "start raises if no server can be reached": "bootstrap_connected",
}

CONSUMER: Final[Mapping[str, str]] = {
    "iterate over the consumer, or use getmany(timeout_ms=…)": "consume getone next poll",
    "use close": "stop",
    "subscribe replaces the subscription, close ends it": "unsubscribe",
    "assign replaces the partitions, and takes an empty list": "incremental_assign incremental_unassign unassign",
    "use commit": "commit_async commit_sync",
    "set enable_auto_finish=False, and call finish with the records that are done": "store_offsets",
    "seek to what committed returns": "seek_to_committed",
    "use beginning_offsets and end_offsets": "get_watermark_offsets",
    "use lag, or end_offsets": "highwater last_stable_offset",
    "use group_metadata": "consumer_group_metadata memberid",
    "use partitions_for": "partitions_for_topic",
    "use list_topics of Admin": "list_topics topics",
    "start raises if no server can be reached": "bootstrap bootstrap_connected",
}

ADMIN: Final[Mapping[str, str]] = {
    "use list_groups": "list_consumer_groups",
    "use describe_groups": "describe_consumer_groups",
    "use list_group_offsets": "list_consumer_group_offsets",
    "use list_offsets": "list_partition_offsets",
    "nothing needs to be polled: each method returns its result": "poll",
    "use close": "stop",
    "create_topics returns once the topics are created": "wait_for_topics",
    "not yet; on the roadmap: everything beyond topics, groups, offsets and reading configurations": (
        "alter_client_quotas alter_configs alter_consumer_group_offsets alter_group_offsets "
        "alter_partition_reassignments alter_replica_log_dirs alter_user_scram_credentials create_acls "
        "create_partitions delete_acls delete_consumer_groups delete_group_offsets delete_groups delete_records "
        "describe_acls describe_client_quotas describe_features describe_log_dirs describe_metadata_quorum "
        "describe_producers describe_transactions describe_user_scram_credentials elect_leaders "
        "incremental_alter_configs list_partition_reassignments list_transactions remove_group_members "
        "reset_configs reset_group_offsets update_features"
    ),
}


#: What other clients pass to `subscribe`, likewise.
SUBSCRIBE: Final[Mapping[str, str]] = {
    "topics are given one by one or in one list: subscribe('a', 'b')": "topic topics",
    "the listener is an argument of Consumer": "callback listener on_assign on_lost on_revoke",
}


def refuse_keywords(method: str, hints: Mapping[str, str], given: Iterable[str]) -> None:
    """Refuse keyword arguments that a method does not have.

    Args:
        method: its name.
        hints: names of other clients, separated by spaces, by what to do here.
        given: the keywords.

    Raises:
        TypeError: there is one.
    """
    for keyword in given:
        advice = (each for each, names in hints.items() if keyword in names.split())
        raise TypeError(f"{method}: {keyword}=…: {next(advice, 'there is no such argument')}")


class _Hint:
    """An attribute that a class does not have.

    Args:
        name: what another client calls it.
        advice: what to do instead.
    """

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, instance: object, owner: type) -> NoReturn:
        given = owner if instance is None else instance
        raise AttributeError(f"{owner.__name__} has no {self._name}: {self._advice}", name=self._name, obj=given)


class HintingClass(ABCMeta):
    """The metaclass of faces: does not list hints. Abstract base classes may be mixed in."""

    def __dir__(cls) -> list[str]:
        return _without_hints(cls, super().__dir__())


class Hinting(metaclass=HintingClass):
    """A face that knows the methods of other clients; a derived class may have methods of these names.

    Args:
        hints: names of other clients, separated by spaces, by what to do here.
    """

    def __init_subclass__(cls, hints: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        for advice, names in (hints or {}).items():
            for name in names.split():
                setattr(cls, name, _Hint(name, advice))

    def __dir__(self) -> list[str]:
        return _without_hints(self, super().__dir__())


def _without_hints(given: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if not isinstance(getattr_static(given, name, None), _Hint)]
