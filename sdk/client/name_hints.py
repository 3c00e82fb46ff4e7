"""Map names imported from other Kafka clients to their counterparts here, or to advice if there are none.

`import kafkawire.admin` has no hint: Python looks for such a module without asking the package, and a module that only
raises would end every program that imports all modules of a package, and would satisfy type checkers.

Source: the public names of Apache Kafka 4.3 (Java), confluent-kafka 2.16, kafka-python 3.0, aiokafka 0.14.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from kafkawire.sdk.client.method_hints import advice_on

__all__ = ["NAMES", "missing"]

#: Advice for names in other clients: maps each piece of advice to the names that it is for, separated by spaces.
NAMES: Final[Mapping[str, str]] = {
    "use Consumer of kafkawire, or of kafkawire.sync if you do not use asyncio": (
        "AIOConsumer AIOKafkaConsumer AsyncConsumer DeserializingConsumer KafkaConsumer SerializingConsumer"
    ),
    "use ShareConsumer of kafkawire, or of kafkawire.sync if you do not use asyncio": "KafkaShareConsumer",
    "use Producer of kafkawire, or of kafkawire.sync if you do not use asyncio": (
        "AIOKafkaProducer AIOProducer AsyncProducer KafkaProducer SerializingProducer"
    ),
    "use Admin of kafkawire, or of kafkawire.sync if you do not use asyncio": (
        "AIOKafkaAdminClient AdminClient KafkaAdminClient"
    ),
    "use Record of kafkawire": "ConsumerRecord Message",
    "use RebalanceListener of kafkawire, whose methods are on_assigned, on_revoked and on_lost": (
        "AbstractConsumerRebalanceListener ConsumerRebalanceListener"
    ),
    "use delete_records of Admin: delete_records({partition: offset})": "RecordsToDelete",
    "use list_group_offsets_of and alter_group_offsets of Admin": "ConsumerGroupTopicPartitions",
    "use OffsetTimestamp of kafkawire": "OffsetSpec",
    "use seek_to_beginning and seek_to_end of Consumer": "OFFSET_BEGINNING OFFSET_END",
    "use TimestampType of kafkawire": "TIMESTAMP_CREATE_TIME TIMESTAMP_LOG_APPEND_TIME TIMESTAMP_NOT_AVAILABLE",
    "use the text 'read_committed' or 'read_uncommitted'": "IsolationLevel",
    "pass functions: key_serializer and value_serializer to Producer, their counterparts to Consumer": (
        "Deserializer JSONSerializer Serializer StringDeserializer StringSerializer"
    ),
    "use Broker of kafkawire.testing": "Broker EmbeddedKafka KafkaBroker MockCluster",
    "use ConfigChange of kafkawire": "AlterConfigOp",
    "use AlterConfigOperation of kafkawire": "AlterConfigOpType",
    "use PatternType of kafkawire": "ACLResourcePatternType ResourcePatternType",
    "use AclBinding of kafkawire, which has a ResourcePattern and an AccessControlEntry": "ACL",
    "use AclBindingFilter of kafkawire": "ACLFilter",
    "use AclOperation of kafkawire": "ACLOperation",
    "use AclPermissionType of kafkawire": "ACLPermissionType",
    "use accept, release, reject or renew of the ShareDelivery": "AcknowledgeType",
    "states of groups are text: 'Stable', 'Empty' and so on": "ConsumerGroupState GroupState",
    "types of groups are text: 'classic', 'consumer', 'share' or 'streams'": "ConsumerGroupType GroupType",
    "pass names, or topic_ids, to describe_topics and delete_topics of Admin": "TopicCollection",
    "the admin and everything that it takes and returns are in kafkawire": "admin",
    "all clients are in kafkawire, or in kafkawire.sync if you do not use asyncio": "aio consumer producer",
    "catch KafkaWireError of kafkawire, the base of all errors": "KafkaError KafkaException",
    "catch RequestTimedOut or DeliveryTimedOut of kafkawire.errors": "KafkaTimeoutError",
    "catch ConnectFailed or ConnectionLost of kafkawire.errors": "KafkaConnectionError NoBrokersAvailable",
    "catch LocalProtocolError of kafkawire.errors": "IllegalStateError",
    "catch DeserializationFailed of kafkawire.errors": "ConsumeError ValueDeserializationError",
    "catch BrokerError of kafkawire, and check its code": (
        "CommitFailedError GroupAuthorizationFailedError GroupCoordinatorNotAvailableError IllegalGenerationError "
        "LeaderNotAvailableError MessageSizeTooLargeError NotLeaderForPartitionError OffsetOutOfRangeError "
        "RebalanceInProgressError TopicAlreadyExistsError TopicAuthorizationFailedError UnknownMemberIdError "
        "UnknownTopicOrPartitionError"
    ),
}

#: Modules whose public names are also searched.
_MODULES: Final = ("kafkawire", "kafkawire.errors")


def missing(module: str, name: str) -> Exception:
    """Return the error for a name that a module does not have.

    Args:
        module: the module.
        name: the name of the missing attribute.

    Returns:
        An `ImportError` with the hint if other clients or another module have such a name, because `from … import`
        replaces the text of an `AttributeError`.
    """
    advice = advice_on(name, NAMES)
    if advice is None and not name.startswith("_"):
        homes = (home for home in _MODULES if name in import_module(home).__all__)
        advice = next((f"import it from {home}" for home in homes), None)
    if advice is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    return ImportError(f"{module} has no {name}: {advice}", name=module)
