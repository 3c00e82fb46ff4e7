"""Who leads a quorum of controllers, as one of them remembers: `quorum-state`, beside the log of cluster metadata.

Source: `FileQuorumStateStore` in Apache Kafka; `schemas/storage/quorum_state_data.yaml`.
"""

from __future__ import annotations

import json
import math
from typing import Final

from kafkawire.sdk.storage.damage import DamagedContent, stored_text

__all__ = ["QUORUM_STATE", "parse_quorum_state"]

QUORUM_STATE: Final = "quorum-state"


def parse_quorum_state(content: bytes) -> dict[str, object]:
    """Return what a file says, whatever the version.

    Raises:
        DamagedContent: it is no object of JSON.
    """
    text = stored_text(content)
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise DamagedContent(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DamagedContent("no object of JSON")
    return found


def _finite(text: str) -> float:
    """Return a number; JSON has no others, though Python reads and writes them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is no finite number")
    return number
