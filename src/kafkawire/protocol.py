"""Messages of Kafka's protocol: read them, write them, convert them to JSON and back.

    heartbeat = codec("HeartbeatRequest", 0)  # a construct.Construct: parse, build, nest
    message = from_json("HeartbeatRequest", 0, {"groupId": "g", "generationId": 7, "memberId": "m"})
    data = heartbeat.build(message)
    assert heartbeat.parse(data) == message
    assert heartbeat.decode(b"before" + data, offset=6) == (message, 6 + len(data))

The classes live in `kafkawire.sdk.protocol.messages`, one module for each API.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.json_form import from_json, to_json
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["APIS", "ApiKey", "Codec", "ErrorCode", "Message", "codec", "from_json", "message_class", "to_json"]
