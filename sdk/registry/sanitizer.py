"""Names of users, client ids and addresses as Kafka writes them in paths: percent-encoded, without a slash.

Source: `Sanitizer` in Apache Kafka, which uses `URLEncoder` and `URLDecoder` of Java.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

__all__ = ["desanitize", "sanitize"]

#: A percent sign that two hexadecimal digits do not follow.
_BROKEN: Final = re.compile("%(?![0-9a-fA-F]{2})")


def sanitize(name: str) -> str:
    """Return the sanitized form of a name: ASCII letters, digits, `-`, `.`, `_` and percent signs.

    Raises:
        ValueError: the name has an unpaired surrogate, which UTF-8 cannot represent.
    """
    return quote(name, safe="").replace("~", "%7E")  # which Java encodes


def desanitize(text: str) -> str:
    """Return the name of a sanitized form; like Kafka, read a plus sign as a space, and bytes that are not UTF-8 as �.

    Raises:
        ValueError: two hexadecimal digits do not follow a percent sign.
    """
    if found := _BROKEN.search(text):
        raise ValueError(f"no two hexadecimal digits follow the percent sign at character {found.start()}")
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")
