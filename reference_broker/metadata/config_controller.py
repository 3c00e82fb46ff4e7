"""The controller for configurations, the counterpart of `topic_controller.py` for topics.

    request ──▶ ConfigController ──topic──▶ TopicController
                      └──broker, group, client metrics──▶ ConfigStore

Source: `ConfigAdminManager`, `ConfigurationControlManager` in Apache Kafka, whose error texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.config_operations import Operation, check_operations, operated
from kafkawire.reference_broker.config.loggers import change_levels, check_levels
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.config_rules import ConfigRules
from kafkawire.reference_broker.metadata.config_store import ConfigDone, ConfigStore, Revise
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ConfigController"]

#: The configurations whose values Kafka treats as lists, for each type of resource.
_LISTS: Mapping[int, frozenset[str]] = {
    ConfigResourceType.TOPIC: frozenset(key.name for key in TOPIC_CONFIGS.values() if key.type == ConfigType.LIST),
    ConfigResourceType.BROKER: frozenset(key.name for key in BROKER_CONFIGS.values() if key.type == ConfigType.LIST),
    ConfigResourceType.GROUP: frozenset(key.name for key in GROUP_CONFIGS.values() if key.type == ConfigType.LIST),
    ConfigResourceType.CLIENT_METRICS: frozenset(),
}


class ConfigController:
    """Checks and applies changes to configurations.

    Args:
        options: the broker's current options.
        rules: see `ConfigRules`.
        configs: configurations of the broker.
        dynamic: see `ConfigStore`.
        metadata: holds the topics.
        topics: changes the topics.
    """

    def __init__(
        self,
        options: BrokerOptions,
        rules: ConfigRules,
        configs: BrokerConfigs,
        dynamic: ConfigStore,
        metadata: MetadataCache,
        topics: TopicController,
    ) -> None:
        self._options = options
        self._rules = rules
        self._configs = configs
        self._dynamic = dynamic
        self._metadata = metadata
        self._topics = topics

    def operate(
        self, kind: int, name: str, operations: Sequence[Operation], done: ConfigDone, *, validate_only: bool = False
    ) -> None:
        """Change individual configurations of a resource.

        Args:
            kind: the type of the resource (see `ConfigResourceType`).
            name: the name of the resource.
            operations: the operations to perform.
            done: see `ConfigDone`; it may be called immediately.
            validate_only: whether to check the change without making it.

        Raises:
            BrokerError: the change is refused.
        """
        check_operations(operations)
        if kind == ConfigResourceType.BROKER_LOGGER:
            self._node(name, f"Unexpected node id. Expected {self._options.node_id}, but received")
            check_levels(operations)
            if not validate_only:
                change_levels(operations)
            done(None)
            return

        def revise(configs: Mapping[str, str]) -> Mapping[str, str]:
            return operated(
                configs, operations, lambda each: self._list_refusal(kind, each), lambda each: self._default(kind, each)
            )

        self._change(kind, name, revise, done, validate_only)

    def replace(
        self,
        kind: int,
        name: str,
        configs: Sequence[tuple[str, str | None]],
        done: ConfigDone,
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace all configurations of a resource; the arguments are those of `operate`, but with names and values.

        Raises:
            BrokerError: the change is refused.
        """
        operations = [Operation(config, AlterConfigOperation.SET, value) for config, value in configs]
        check_operations(operations)
        self._change(kind, name, lambda _: {each.name: each.value or "" for each in operations}, done, validate_only)

    def _default(self, kind: int, name: str) -> str:
        """Return the inherited value of a list configuration that a resource does not set."""
        if kind == ConfigResourceType.TOPIC:
            key = TOPIC_CONFIGS[name]
            return (self._configs.value(key.broker) if key.broker else key.default) or ""
        return BROKER_CONFIGS[name].default or ""

    def _list_refusal(self, kind: int, each: Operation) -> BrokerError | None:
        """Return why a list operation is impossible, or None if it is possible."""
        if each.name in _LISTS.get(kind, ()):
            return None
        known = TOPIC_CONFIGS if kind == ConfigResourceType.TOPIC else BROKER_CONFIGS
        if kind == ConfigResourceType.BROKER or self._dynamic.is_registry:
            if each.name not in known:
                return BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {each.name}")
            word = AlterConfigOperation(each.operation).name.lower()
            reason = f"Config value {word} is not allowed for config key: {each.name}"
            return BrokerError(ErrorCode.INVALID_CONFIG, reason)
        word = AlterConfigOperation(each.operation).name
        reason = f"Can't {word} to key {each.name} because its type is not LIST."
        return BrokerError(ErrorCode.INVALID_CONFIG, reason)

    def _node(self, name: str, unexpected: str) -> str:
        """Return the id of this broker, given its resource name.

        Raises:
            BrokerError: the name belongs to another broker.
        """
        try:
            node_id = int(name)
        except ValueError:
            raise _invalid(f"Node id must be an integer, but it is: {name}") from None
        if node_id != self._options.node_id:
            raise _invalid(f"{unexpected} {name}")
        return str(node_id)

    def _change(self, kind: int, name: str, revise: Revise, done: ConfigDone, validate_only: bool) -> None:
        match kind:
            case ConfigResourceType.TOPIC:
                self._change_topic(self._topic(name), revise, done, validate_only)
                return
            case ConfigResourceType.BROKER:
                if name:
                    name = self._node(name, f"Unexpected broker id, expected {self._options.node_id}, but received")
                resource, check = ConfigResourceType.BROKER, self._check_broker(is_for_all=not name)
            case ConfigResourceType.CLIENT_METRICS if self._dynamic.is_registry:
                reason = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
                raise _invalid(reason)
            case ConfigResourceType.GROUP if not self._dynamic.is_registry:
                if not name:
                    raise _invalid("Default group resources are not allowed.")
                resource, check = ConfigResourceType.GROUP, self._rules.check_group
            case ConfigResourceType.CLIENT_METRICS:
                if not name:
                    raise _invalid("Subscription name can't be empty")
                resource, check = ConfigResourceType.CLIENT_METRICS, self._rules.check_client_metrics
            case _:
                raise _invalid(f"Unknown resource type {kind}")

        def checked(configs: Mapping[str, str]) -> Mapping[str, str]:
            revised = revise(configs)
            check(revised)
            return revised

        checked(self._dynamic.of(resource, name))  # refuse an invalid change without making it wait its turn
        if validate_only:
            done(None)
        else:
            self._dynamic.change(resource, name, checked, done)

    def _check_broker(self, *, is_for_all: bool) -> Callable[[Mapping[str, str]], None]:
        return lambda configs: self._rules.check_broker(configs, is_for_all=is_for_all)

    def _topic(self, name: str) -> TopicImage:
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        check_characters(name)
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _change_topic(self, topic: TopicImage, revise: Revise, done: ConfigDone, validate_only: bool) -> None:
        def checked(configs: Mapping[str, str]) -> Mapping[str, str]:
            revised = revise(configs)
            # Another release may have stored names that are unknown to this one; they are kept, but have no effect
            # here.
            known = {
                name: value for name, value in revised.items() if name in TOPIC_CONFIGS or configs.get(name) != value
            }
            self._rules.check_topic(topic.name, known, self._options.topic_defaults)
            return revised

        if validate_only:
            checked(topic.configs)
            done(None)
        else:
            self._topics.configure(topic, checked, lambda made: done(_error_of(made)))


def _error_of(made: TopicImage | BrokerError) -> BrokerError | None:
    return made if isinstance(made, BrokerError) else None


def _invalid(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, reason)
