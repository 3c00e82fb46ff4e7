"""Read the document with an issuer's keys from a file, or over HTTP; blocking, for the background.

Source: `CachedFile` in Apache Kafka; `HttpsJwks` of jose4j, which it uses.
"""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.parse import urlsplit

from kafkawire.reference_broker.security.sasl.json_web_keys import DOCUMENT_BYTES_MAX
from kafkawire.sdk.clock import monotonic_ms

__all__ = ["REQUEST_TIMEOUT_MS", "KeyFile", "KeyUrl"]

#: The time limit of a request; jose4j has the same for each wait. An issuer that does not answer must not keep the
#: background busy.
REQUEST_TIMEOUT_MS: Final = 20_000

_CHUNK_BYTES: Final = 64 * 1024


class KeyFile:
    """A document in a file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: tuple[int, int] | None = None

    def __call__(self) -> bytes | None:
        """Return the document; None if the file has not changed since the last call.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large.
        """
        with open(self._path, "rb") as file:
            found = os.fstat(file.fileno())
            version = found.st_mtime_ns, found.st_size
            if version == self._read:
                return None
            document = file.read(DOCUMENT_BYTES_MAX + 1)
        self._read = version
        return _checked(document)


class KeyUrl:
    """A document at a URL.

    Args:
        url: an http:// or https:// URL.
        context: the TLS context for https; None for the system's trusted authorities.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._context = context

    def __call__(self) -> bytes:
        """Return the document.

        Raises:
            OSError: the server cannot be reached, or does not return the document in time.
            ValueError: the document is too large.
        """
        context = self._context or ssl.create_default_context()
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _SameScheme())
        request = urllib.request.Request(self._url, headers={"Accept": "application/json"})
        deadline_ms = monotonic_ms() + REQUEST_TIMEOUT_MS
        document = bytearray()
        try:
            with opener.open(request, timeout=REQUEST_TIMEOUT_MS / 1000) as response:
                if response.status != HTTPStatus.OK:
                    raise OSError(f"the response has the status {response.status}")
                while len(document) <= DOCUMENT_BYTES_MAX and (chunk := response.read1(_CHUNK_BYTES)):
                    document += chunk
                    if monotonic_ms() > deadline_ms:
                        raise TimeoutError(f"the response took longer than {REQUEST_TIMEOUT_MS} ms")
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"the response has the status {error.code}") from None
        except HTTPException as error:
            raise OSError(f"the response is not HTTP: {type(error).__name__}") from error
        return _checked(bytes(document))


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirects that keep the scheme, as Java does: keys from https must not come from http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != req.type:
            fp.close()
            raise OSError(f"the response is a redirect from {req.type} to another scheme")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _checked(document: bytes) -> bytes:
    if len(document) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"the document has more than {DOCUMENT_BYTES_MAX} bytes, the limit for a set of keys")
    return document
