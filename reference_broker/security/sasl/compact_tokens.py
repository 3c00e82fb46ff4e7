"""The parts of a token in compact form: base64url, and JSON as Kafka's parsers accept it.

Source: RFC 7515 §3; `java.util.Base64` and Jackson's defaults, as `OAuthBearerUnsecuredJws` in Apache Kafka uses them.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, NoReturn

__all__ = ["MalformedToken", "first_json", "from_base64url"]

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*={0,2}")


class MalformedToken(ValueError):
    """A part of a token cannot be read; the text does not show it."""


def from_base64url(text: str) -> bytes:
    """Decode base64url, with or without padding.

    Raises:
        MalformedToken: the text has other characters, or an impossible length.
    """
    bare = text.rstrip("=")
    is_padded_right = text == bare or len(text) % 4 == 0
    if not _BASE64URL.fullmatch(text) or len(bare) % 4 == 1 or not is_padded_right:
        raise MalformedToken("a part of the token is not base64url")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), b"-_")


def first_json(data: bytes, *, allows_more: bool = True) -> Any:
    """Return the first JSON value; None if there is none.

    Args:
        data: JSON in UTF-8, UTF-16 or UTF-32.
        allows_more: whether other text may follow the value.

    Raises:
        MalformedToken: the data does not begin with JSON.
    """
    try:
        text = data.decode(json.detect_encoding(data)).lstrip(" \t\r\n")
        if not text:
            return None
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        raise MalformedToken("a part of the token is not JSON") from None
    if not allows_more and text[end:].strip(" \t\r\n"):
        raise MalformedToken("text follows the JSON in a part of the token")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
