"""Messages of Kafka's protocol: read them, write them, convert them to and from JSON; and connections without sockets.

    heartbeat = codec("HeartbeatRequest", 0)  # a construct.Construct: parse, build, nest
    message = from_json("HeartbeatRequest", 0, {"groupId": "g", "generationId": 7, "memberId": "m"})
    data = heartbeat.build(message)
    assert heartbeat.parse(data) == message
    assert heartbeat.decode(b"before" + data, offset=6) == (message, 6 + len(data))

The message classes live in `kafkawire.sdk.protocol.messages`, one module for each API; docs/howto shows how to add your
own APIs. Connections convert frames to messages and vice versa, and do no I/O. docs/guide/connections.md describes
them, and shows how to decode captured traffic.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.codec import Codec, codec
from kafkawire.sdk.protocol.connection import ClientConnection, Received, Request, Sent, ServerConnection
from kafkawire.sdk.protocol.frames import FrameBuffer, FrameTooLarge, frame
from kafkawire.sdk.protocol.json_form import from_json, to_json
from kafkawire.sdk.protocol.observation import ObservedConnection, Unread, observe, read_request
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.text_form import to_text
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = [
    "APIS",
    "KAFKA_APIS",
    "Api",
    "ApiKey",
    "ApiRegistry",
    "ClientConnection",
    "Codec",
    "ErrorCode",
    "FrameBuffer",
    "FrameTooLarge",
    "Message",
    "ObservedConnection",
    "Received",
    "Request",
    "Sent",
    "ServerConnection",
    "Unread",
    "VersionRange",
    "codec",
    "frame",
    "from_json",
    "message_class",
    "observe",
    "read_request",
    "to_json",
    "to_text",
]
