"""The public protocol module provides codecs, messages and their JSON form.

Method: send one message on a round trip through each of them.
"""

from __future__ import annotations

from kafkawire.protocol import APIS, ApiKey, codec, from_json, message_class, to_json


def test_one_message_in_every_form() -> None:
    version = APIS[ApiKey.LIST_GROUPS].versions.last
    message = from_json("ListGroupsRequest", version, {"statesFilter": ["Stable"], "typesFilter": []})
    assert isinstance(message, message_class("ListGroupsRequest"))
    data = codec("ListGroupsRequest", version).build(message)
    assert codec(type(message), version).parse(data) == message
    assert to_json(message, version) == {"statesFilter": ["Stable"], "typesFilter": []}
