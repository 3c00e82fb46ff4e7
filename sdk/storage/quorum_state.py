"""Read `quorum-state`, a controller's record of its quorum's leader, stored beside the cluster metadata log.

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
    """Return the content of a file, whatever its version.

    Raises:
        DamagedContent: the content is not a JSON object.
    """
    text = stored_text(content)
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise DamagedContent(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DamagedContent("not a JSON object")
    return found


def _finite(text: str) -> float:
    """Return a number, which must be finite: Python also reads and writes infinities and NaN, but JSON has neither."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number
