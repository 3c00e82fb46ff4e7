"""Errors for data that decompression refuses."""

from __future__ import annotations

from kafkawire.sdk.errors import DecodeError

__all__ = ["damaged", "too_long"]

_PATH = "records"


def damaged(codec: str, offset: int, reason: object) -> DecodeError:
    """Return the error for malformed compressed data.

    Args:
        codec: the codec's name.
        offset: position of the fault in the compressed data.
        reason: what is wrong.
    """
    # Some libraries raise errors without a text.
    return DecodeError(_PATH, offset, f"{codec}: {str(reason) or 'the data is damaged'}")


def too_long(codec: str, limit: int, announced_bytes: int | None = None) -> DecodeError:
    """Return the error for content that exceeds the limit.

    Args:
        codec: the codec's name.
        limit: the limit, in bytes.
        announced_bytes: the size that the data declares, if any.
    """
    announced = "" if announced_bytes is None else f": the data declares {announced_bytes}"
    return DecodeError(
        _PATH, 0, f"{codec}: more than the {limit} bytes that a batch may have when decompressed{announced}"
    )
