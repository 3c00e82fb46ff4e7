"""Responses to configuration changes, in one table for Apache Kafka and the reference broker.

`tests/kafka/test_config_cases.py` sends the cases to both, and
`tests/reference_broker/apis/test_incremental_alter_configs.py` sends them to a broker without sockets.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["CASES", "TOPIC", "Case", "Operation"]

SET, DELETE = AlterConfigOperation.SET, AlterConfigOperation.DELETE
APPEND, SUBTRACT = AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT

CONFIG, REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST

#: A placeholder for the name of an existing topic.
TOPIC: Final = "<topic>"

#: Name, operation, value.
Operation = tuple[str, int, str | None]


class Case(NamedTuple):
    """A change that is validated but not made.

    Attributes:
        kind: the kind of the resource.
        name: the name of the resource.
        operations: the operations in the request.
        code: the error code in the response; NONE if the change is valid.
        message: the message in the response.
        kafka: Kafka's response, if it differs; a comment in the table says why.
    """

    kind: int
    name: str
    operations: tuple[Operation, ...]
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    kafka: tuple[ErrorCode, str | None] | None = None


def _case(
    kind: int,
    name: str,
    *operations: Operation,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
    kafka: tuple[ErrorCode, str | None] | None = None,
) -> Case:
    return Case(kind, name, operations, code, message, kafka)


def _topic(*operations: Operation, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Case:
    return Case(ConfigResourceType.TOPIC, TOPIC, operations, code, message)


def _broker(
    *operations: Operation,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
    name: str = "1",
    kafka: tuple[ErrorCode, str | None] | None = None,
) -> Case:
    return Case(ConfigResourceType.BROKER, name, operations, code, message, kafka)


def _group(*operations: Operation, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Case:
    return Case(ConfigResourceType.GROUP, "g", operations, code, message)


def _metrics(*operations: Operation, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Case:
    return Case(ConfigResourceType.CLIENT_METRICS, "m", operations, code, message)


def _logger(
    *operations: Operation,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
    name: str = "1",
) -> Case:
    return Case(ConfigResourceType.BROKER_LOGGER, name, operations, code, message)


_LISTENER = "listener.name.plaintext.ssl.keystore.type"
_RESET = "share.auto.offset.reset"
_FORMAT = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
_DYNAMIC = "Cannot update these configs dynamically: "
_NOT_FOR_ALL = "Cannot update these configs at default cluster level, broker id must be specified: "
_INTERVAL = "interval must be between 100 and 3600000 (1 hour)"
_LEVELS = "as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"

#: The cases are independent of each other.
CASES: Final = (
    # Topics.
    _topic(("retention.ms", SET, "5000")),
    _topic(("cleanup.policy", APPEND, "compact")),
    _topic(("cleanup.policy", SUBTRACT, "delete")),
    _topic(("cleanup.policy", SUBTRACT, "nothing")),
    _topic(("cleanup.policy", DELETE, "whatever")),
    _topic(("follower.replication.throttled.replicas", APPEND, "0:1,1:1")),
    _topic(("follower.replication.throttled.replicas", APPEND, "")),
    _topic(("nobody.knows", DELETE, None)),
    _topic(),
    _topic(("cleanup.policy", APPEND, ""), code=CONFIG,
           message="Configuration 'cleanup.policy' values must not be empty."),
    _topic(("retention.ms", APPEND, "1"), code=CONFIG,
           message="Can't APPEND to key retention.ms because its type is not LIST."),
    _topic(("retention.ms", SUBTRACT, "1"), code=CONFIG,
           message="Can't SUBTRACT to key retention.ms because its type is not LIST."),
    _topic(("nobody.knows", APPEND, "1"), code=CONFIG,
           message="Can't APPEND to key nobody.knows because its type is not LIST."),
    _topic(("nobody.knows", SET, "1"), ("retention.ms", APPEND, "1"), code=CONFIG,
           message="Can't APPEND to key retention.ms because its type is not LIST."),
    _topic(("retention.ms", SET, None), code=REQUEST, message="Null value not supported for : retention.ms"),
    _topic(("cleanup.policy", SET, None), ("retention.ms", APPEND, None), code=REQUEST,
           message="Null value not supported for : cleanup.policy, retention.ms"),
    _topic(("retention.ms", SET, "1"), ("retention.ms", DELETE, None), code=REQUEST,
           message="Error due to duplicate config keys"),
    _topic(("nobody.knows", SET, "1"), code=CONFIG, message="Unknown topic config name: nobody.knows"),
    _topic(("segment.bytes", SET, "1"), ("nobody.knows", SET, "1"), code=CONFIG,
           message="Unknown topic config name: nobody.knows"),
    _topic(("", SET, "1"), code=CONFIG, message="Unknown topic config name: "),
    _topic(("segment.bytes", SET, "1"), code=CONFIG,
           message="Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
    _topic(("retention.ms", SET, ""), code=CONFIG,
           message="Invalid value  for configuration retention.ms: Not a number of type LONG"),
    _topic(("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5"), code=CONFIG,
           message="conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"),
    _topic(("remote.storage.enable", SET, "true"), code=CONFIG,
           message="Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
           "storage."),
    # Kafka does not answer a request with an unknown operation.
    Case(ConfigResourceType.TOPIC, TOPIC, (("retention.ms", 9, "1"),), REQUEST, "Unknown operation type: 9",
         (ErrorCode.UNKNOWN_SERVER_ERROR, None)),
    _case(ConfigResourceType.TOPIC, "absent", ("retention.ms", SET, "1"), code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
          message="The topic 'absent' does not exist."),
    _case(ConfigResourceType.TOPIC, "", ("retention.ms", SET, "1"), code=REQUEST,
          message="Default topic resources are not allowed."),
    _case(ConfigResourceType.TOPIC, "bad name", ("retention.ms", SET, "1"), code=ErrorCode.INVALID_TOPIC_EXCEPTION,
          message="Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, "
          "'.', '_' and '-'"),
    # Brokers.
    _broker(("log.retention.ms", SET, "5000")),
    _broker(("log.retention.ms", SET, "-5")),
    _broker(("log.retention.ms", SET, "5000"), name=""),
    _broker(("log.retention.ms", SET, "5000"), name="01"),
    _broker(("log.cleanup.policy", APPEND, "compact")),
    _broker(("log.cleanup.policy", SUBTRACT, "delete")),
    _broker(("num.partitions", DELETE, None)),
    _broker(("nobody.knows", SET, "3")),
    _broker(("nobody.knows", SET, "3"), name=""),
    _broker((_LISTENER, SET, "JKS")),
    _broker(("max.connections.per.ip.overrides", SET, "127.0.0.1:500")),
    _broker(("num.partitions", SET, "3"), code=REQUEST, message=_DYNAMIC + "[num.partitions]"),
    _broker(("num.partitions", SET, "3"), name="", code=REQUEST, message=_DYNAMIC + "[num.partitions]"),
    _broker(("num.partitions", SET, "3"), ("node.id", SET, "4"), code=REQUEST,
            message=_DYNAMIC + "[node.id, num.partitions]"),
    _broker(("advertised.listeners", SET, "PLAINTEXT://x:1"), code=REQUEST,
            message=_DYNAMIC + "[advertised.listeners]"),
    _broker(("log.retention.hours", SET, "7"), code=REQUEST, message=_DYNAMIC + "[log.retention.hours]"),
    _broker(("ssl.keystore.type", SET, "JKS"), code=REQUEST,
            message="These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.type]"),
    _broker(("listeners", SET, "PLAINTEXT://:1"), name="", code=REQUEST, message=_NOT_FOR_ALL + "[listeners]"),
    _broker((_LISTENER, SET, "JKS"), name="", code=REQUEST, message=_NOT_FOR_ALL + f"[{_LISTENER}]"),
    _broker(("log.retention.ms", SET, "x"), code=REQUEST,
            message="Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
    _broker(("log.segment.bytes", SET, "1"), code=REQUEST,
            message="Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576"),
    _broker(("max.connections", SET, "-1"), code=REQUEST,
            message="Invalid value -1 for configuration max.connections: Value must be at least 0"),
    _broker(("max.connections", SET, "0"), code=REQUEST,
            message="Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for "
            "configuration Invalid dynamic configuration"),
    *(
        _broker((f"listener.name.plaintext.{limit}", SET, value), name=name, code=code, message=message)
        for limit in ("max.connections", "max.connection.creation.rate")
        for name in ("1", "")
        for value, code, message in (
            ("500", ErrorCode.NONE, None),
            ("0", REQUEST, f"Invalid value org.apache.kafka.common.config.ConfigException: Invalid {limit} 0 for "
             "configuration Invalid dynamic configuration"),
        )
    ),
    _broker(("listener.name.plaintext.nobody.knows", SET, "3"), name="", code=REQUEST,
            message=_NOT_FOR_ALL + "[listener.name.plaintext.nobody.knows]"),
    _broker(("max.connections.per.ip", SET, "0"), code=REQUEST,
            message="requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."),
    _broker(("log.retention.ms", SET, "0"), code=REQUEST,
            message="requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
    _broker(("log.cleaner.dedupe.buffer.size", SET, "1"), code=REQUEST,
            message="requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
    _broker(("group.consumer.assignment.interval.ms", SET, "999999"), code=REQUEST,
            message="group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms"),
    _broker(("group.streams.assignment.interval.ms", SET, "999999"), code=REQUEST,
            message="group.streams.assignment.interval.ms must be less than or equal to "
            "group.streams.max.assignment.interval.ms"),
    # Kafka's message is the text of its internal error.
    _broker(("max.connections.per.ip.overrides", SET, "a"), code=REQUEST,
            message="Error parsing configuration property 'max.connections.per.ip.overrides': 'a' is not "
            "of the form ADDRESS:NUMBER; host names are only accepted at startup",
            kafka=(REQUEST, "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, "
                   "length 1")),
    # This has no effect in the reference broker; Kafka limits how many threads may be added at a time.
    _broker(("num.io.threads", SET, "100"), kafka=(
        REQUEST, "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation "
        "failed for num.io.threads=100, value should not be greater than double the current value 8 for configuration "
        "Invalid dynamic configuration")),
    _broker(("log.retention.ms", APPEND, "1"), code=CONFIG,
            message="Config value append is not allowed for config key: log.retention.ms"),
    _broker(("nobody.knows", APPEND, "1"), code=CONFIG, message="Unknown config name: nobody.knows"),
    _broker(("log.retention.ms", SET, None), code=REQUEST,
            message="Null value not supported for : log.retention.ms"),
    _broker(("log.retention.ms", SET, "1"), name="2", code=REQUEST,
            message="Unexpected broker id, expected 1, but received 2"),
    _broker(("log.retention.ms", SET, "1"), name="x", code=REQUEST,
            message="Node id must be an integer, but it is: x"),
    # Groups.
    _group(("consumer.session.timeout.ms", SET, "50000")),
    _group(("consumer.heartbeat.interval.ms", SET, "15000"), ("consumer.session.timeout.ms", SET, "45000")),
    _group((_RESET, SET, "by_duration:PT1H")),
    _group((_RESET, SET, "by_duration:-PT1H-90M+60,5S")),
    _group((_RESET, SET, "Earliest"), code=CONFIG,
           message=f"Invalid value Earliest for configuration {_RESET}: Invalid value `Earliest` for configuration "
           f"{_RESET}. {_FORMAT}"),
    _group(("nobody.knows", DELETE, None)),
    _group(("consumer.session.timeout.ms", SET, "1"), code=CONFIG,
           message="consumer.session.timeout.ms must be greater than or equal to "
           "group.consumer.min.session.timeout.ms"),
    _group(("consumer.session.timeout.ms", SET, "99999999"), code=CONFIG,
           message="consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
    _group(("consumer.session.timeout.ms", SET, "x"), code=CONFIG,
           message="Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"),
    _group(("consumer.heartbeat.interval.ms", SET, "60000"), code=CONFIG,
           message="consumer.heartbeat.interval.ms must be less than or equal to "
           "group.consumer.max.heartbeat.interval.ms"),
    _group(("streams.num.standby.replicas", SET, "2")),
    _group(("streams.num.standby.replicas", SET, "3"), code=CONFIG,
           message="streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"),
    _group((_RESET, SET, "x"), code=CONFIG,
           message=f"Invalid value x for configuration {_RESET}: Invalid value `x` for configuration {_RESET}. "
           f"{_FORMAT}"),
    _group(("share.isolation.level", SET, "x"), code=CONFIG,
           message="Invalid value x for configuration share.isolation.level: String must be one of: read_committed, "
           "read_uncommitted"),
    _group(("consumer.session.timeout.ms", APPEND, "1"), code=CONFIG,
           message="Can't APPEND to key consumer.session.timeout.ms because its type is not LIST."),
    _group(("nobody.knows", SET, "1"), code=CONFIG, message="Unknown group config name: nobody.knows"),
    _case(ConfigResourceType.GROUP, "", ("consumer.session.timeout.ms", SET, "1"), code=REQUEST,
          message="Default group resources are not allowed."),
    # Client metrics.
    _metrics(("interval.ms", SET, "1000")),
    _metrics(("metrics", SET, "org.apache.kafka.,x"), ("match", SET, "client_id=a.*,client_software_name=x")),
    _metrics(("interval.ms", SET, "99"), code=REQUEST, message=f"Invalid value 99 for interval.ms, {_INTERVAL}"),
    _metrics(("interval.ms", SET, "3600001"), code=REQUEST,
             message=f"Invalid value 3600001 for interval.ms, {_INTERVAL}"),
    _metrics(("interval.ms", SET, "x"), code=CONFIG,
             message="Invalid value x for configuration interval.ms: Not a number of type INT"),
    _metrics(("match", SET, "a=b"), code=CONFIG, message="Illegal client matching pattern: a=b"),
    _metrics(("match", SET, "client_id"), code=CONFIG, message="Illegal client matching pattern: client_id"),
    _metrics(("match", SET, "client_id=("), code=CONFIG, message="Illegal client matching pattern: client_id=("),
    _metrics(("match", SET, "client_id=a=b"), code=CONFIG, message="Illegal client matching pattern: client_id=a=b"),
    _metrics(("metrics", APPEND, "y"), code=CONFIG,
             message="Can't APPEND to key metrics because its type is not LIST."),
    _metrics(("nobody.knows", SET, "1"), code=REQUEST, message="Unknown client metrics configuration: nobody.knows"),
    _case(ConfigResourceType.CLIENT_METRICS, "", ("interval.ms", SET, "1000"), code=REQUEST,
          message="Subscription name can't be empty"),
    # Loggers.
    _logger(("root", SET, "INFO")),
    _logger(("root", SET, "LOUD"), code=CONFIG, message=f"Cannot set the log level of root to LOUD {_LEVELS}"),
    _logger(("root", SET, "warn"), code=CONFIG, message=f"Cannot set the log level of root to warn {_LEVELS}"),
    _logger(("nobody.knows", SET, "INFO"), code=CONFIG, message="Logger nobody.knows does not exist!"),
    _logger(("nobody.knows", DELETE, None), code=CONFIG, message="Logger nobody.knows does not exist!"),
    _logger(("root", DELETE, None), code=REQUEST, message="Removing the log level of the root logger is not allowed"),
    _logger(("root", APPEND, "INFO"), code=REQUEST,
            message="APPEND operation is not allowed for the BROKER_LOGGER resource"),
    _logger(("root", SET, "INFO"), name="2", code=REQUEST, message="Unexpected node id. Expected 1, but received 2"),
    _logger(("root", SET, "INFO"), name="", code=REQUEST, message="Node id must be an integer, but it is: "),
    # Other resources.
    _case(0, "x", ("a", SET, "b"), code=REQUEST, message="Unknown resource type 0"),
    _case(99, "x", ("a", SET, "b"), code=REQUEST, message="Unknown resource type 99"),
)  # fmt: skip
