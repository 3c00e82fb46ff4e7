"""The form in which Kafka writes users, client ids and addresses in paths: percent-encoded and without slashes.

Source: `Sanitizer` in Apache Kafka, which uses Java's `URLEncoder` and `URLDecoder`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

__all__ = ["desanitize", "sanitize"]

#: A percent sign that is not followed by two hexadecimal digits.
_BROKEN: Final = re.compile("%(?![0-9a-fA-F]{2})")


def sanitize(name: str) -> str:
    """Return the sanitized form of a name: ASCII letters, digits, `-`, `.`, `_` and percent signs.

    Raises:
        ValueError: the name has an unpaired surrogate, which UTF-8 cannot represent.
    """
    return quote(name, safe="").replace("~", "%7E")  # Java encodes the tilde


def desanitize(text: str) -> str:
    """Return the original of a sanitized name; like Kafka, read plus signs as spaces, and invalid UTF-8 as �.

    Raises:
        ValueError: a percent sign is not followed by two hexadecimal digits.
    """
    if found := _BROKEN.search(text):
        raise ValueError(f"no two hexadecimal digits follow the percent sign at character {found.start()}")
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")
