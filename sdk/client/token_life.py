"""Read from a token how long it is valid, without checking its signature: that is the broker's task.

Source: RFC 7519 §4.1.4 (`exp`); `OAuthBearerTokenJwt` in Apache Kafka, which also believes the token.
"""

from __future__ import annotations

import base64
import json
from math import isfinite

from kafkawire.sdk.secret import Secret

__all__ = ["expires_ms"]

#: The number of parts of a signed token (JWS).
_PARTS = 3


def expires_ms(token: Secret) -> float | None:
    """Return when a token expires, in ms since the epoch; None if the token does not say so in a known way."""
    parts = token.reveal().split(".")
    if len(parts) != _PARTS:
        return None
    try:
        claims = json.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), b"-_"))
    except (ValueError, RecursionError):
        return None
    seconds = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds):
        return None
    return seconds * 1000
