"""Where a broker gets its knowledge about the cluster, and where it sends its requests to the cluster.

A single broker is itself the source of everything; in a cluster, the sources are the registry and the controller.

Source: `SharedServer`, `KafkaServer` in Apache Kafka, which provide such sources according to the cluster's mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.acl_store import AclStore
from kafkawire.reference_broker.metadata.config_store import ConfigStore
from kafkawire.reference_broker.metadata.entity_configs import EntityConfigStore
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.local_acl_store import LocalAclStore
from kafkawire.reference_broker.metadata.local_config_store import LocalConfigStore
from kafkawire.reference_broker.metadata.local_entity_configs import LocalEntityConfigs
from kafkawire.reference_broker.metadata.local_token_store import LocalTokenStore
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.producer_id_blocks import LocalProducerIdBlocks, ProducerIdBlocks
from kafkawire.reference_broker.metadata.token_store import TokenStore
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.transport.wire import Address

__all__ = ["Sources", "local_sources"]


class Sources(NamedTuple):
    """The parts of a broker that depend on the kind of cluster.

    Attributes:
        metadata: the image of the cluster.
        topics: creates, changes and deletes topics.
        configs: stores dynamic configurations.
        tokens: stores delegation tokens.
        entity_configs: stores quotas and SCRAM credentials.
        acls: stores ACLs; None if the broker has no authorizer.
        producer_ids: reserves producer ids.
        new_uuid: returns 16 random bytes, for ids.
        is_controller: returns whether this broker is the controller.
        lost: called with the topic and number of a partition whose log has failed on this broker.
        change_defaults: changes configurations for all logs whose topics do not override them.
    """

    metadata: MetadataCache
    topics: TopicController
    configs: ConfigStore
    tokens: TokenStore
    entity_configs: EntityConfigStore
    acls: AclStore | None
    producer_ids: ProducerIdBlocks
    new_uuid: Callable[[], bytes]
    is_controller: Callable[[], bool]
    lost: Callable[[str, int], None]
    change_defaults: Callable[[Mapping[str, str]], None]


def local_sources(
    store: TopicStore,
    options: BrokerOptions,
    listeners: Mapping[str, Address],
    features: Mapping[str, int],
    forget: Callable[[TopicImage, Callable[[], None], int], None],
) -> Sources:
    """Return the sources of a single broker; see `LocalTopics` for the arguments.

    Raises:
        ConfigurationError: a file of dynamic configurations, quotas and credentials, tokens or ACLs is damaged.
    """
    directory = store.directory
    topics = LocalTopics(store, options, directory.services.timers, listeners, features, forget)
    try:
        return Sources(
            topics.metadata,
            topics,
            LocalConfigStore(directory),
            LocalTokenStore(directory),
            LocalEntityConfigs(directory),
            LocalAclStore(directory) if options.authorizer_class_name else None,
            LocalProducerIdBlocks(directory.producer_ids, directory.services),
            store.new_uuid,
            is_controller=lambda: True,
            lost=topics.lost,
            change_defaults=store.change_defaults,
        )
    except DamagedFile as error:
        raise ConfigurationError("data_dir", directory.services.disk.describe(""), str(error)) from error
