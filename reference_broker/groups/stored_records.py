"""Decode records of the offsets topic, for all types of groups."""

from __future__ import annotations

from kafkawire.reference_broker.coordinators.records import decode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.consumer.records import CONSUMER_RECORD_TYPES, NOTED_RECORD_TYPES
from kafkawire.reference_broker.groups.records import RECORD_TYPES
from kafkawire.reference_broker.groups.share.records import SHARE_GROUP_RECORD_TYPES
from kafkawire.reference_broker.groups.streams.records import STREAMS_GROUP_RECORD_TYPES

__all__ = ["decode_stored"]

_TYPES = {**RECORD_TYPES, **CONSUMER_RECORD_TYPES, **SHARE_GROUP_RECORD_TYPES, **STREAMS_GROUP_RECORD_TYPES}

#: Types whose values are hardly used here; other releases have encoded them differently.
_UNREAD = frozenset(NOTED_RECORD_TYPES)


def decode_stored(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; return None if its type is unknown.

    Raises:
        DecodeError: the key is damaged or has an unknown version; or the value does, and it is used.
    """
    return decode(_TYPES, key, value, unread=_UNREAD)
