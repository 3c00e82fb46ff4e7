"""OAUTHBEARER: a bearer token, with extensions if the broker expects any.

A broker that refuses the token sends JSON as its challenge. The client acknowledges it, and the broker ends the login
with an error.

Source: RFC 7628, RFC 6750 (what a token may contain), KIP-255, KIP-342 (extensions).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret

__all__ = ["OAuthBearerAuthenticator", "check_extensions"]

#: Maximum number of characters that an error quotes from the broker's reason.
_SHOWN_CHARACTERS = 100

_SEPARATOR = "\x01"
#: `b64token` of RFC 6750.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class OAuthBearerAuthenticator:
    """One login with a token.

    Args:
        token: the text after the word "Bearer".
        extensions: further names and values for the broker.

    Raises:
        ConfigurationError: the token or an extension contains invalid characters.
    """

    mechanism = "OAUTHBEARER"

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token.reveal()):
            raise ConfigurationError(
                "sasl_oauthbearer_token", token, "expected letters, digits and ._~+/-, as RFC 6750 defines"
            )
        self._token = token
        self._extensions = check_extensions("sasl_oauthbearer_extensions", extensions or {})
        self._refusal = ""

    def first_message(self) -> bytes:
        pairs = "".join(f"{name}={value}{_SEPARATOR}" for name, value in self._extensions.items())
        return f"n,,{_SEPARATOR}auth=Bearer {self._token.reveal()}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Check the broker's final message: empty if it accepts the token, otherwise the reason for refusing it."""
        if self._refusal:
            raise BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"OAUTHBEARER: {self._refusal}")
        if not challenge:
            return None
        self._refusal = _reason(challenge)
        return _SEPARATOR.encode()


def check_extensions(option: str, extensions: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the extensions.

    Raises:
        ConfigurationError: a name or value contains invalid characters, or a name is "auth".
    """
    for name, value in extensions.items():
        known = isinstance(name, str) and _EXTENSION_NAME.fullmatch(name) and name != "auth"
        if not known:
            reason = f'{name!r}: a name must consist of letters and must not be "auth"'
            raise ConfigurationError(option, extensions, reason)
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigurationError(option, extensions, f"{name}: a value must be printable ASCII and not empty")
    return dict(extensions)


def _reason(challenge: bytes) -> str:
    """Return the status from the broker's JSON; any other text is also treated as a refusal."""
    try:
        status = json.loads(challenge)["status"]
    except (ValueError, TypeError, KeyError, RecursionError):
        status = "the broker refused the token and did not say why"
    return f"{status!s:.{_SHOWN_CHARACTERS}}"
