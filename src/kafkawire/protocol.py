"""Messages of Kafka's protocol: read them, write them, turn them into JSON and back.

    codec("FetchRequest", 12).parse(data)                 # any construct.Construct: parse, build, nest
    message, end = codec(FetchRequest, 12).decode(buffer, offset)
    from_json("FetchRequest", 12, {"maxWaitMs": 500, …})

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
