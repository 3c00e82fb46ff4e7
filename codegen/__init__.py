"""Generate modules from schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["OUT", "SCHEMAS"]

_PACKAGE = Path(__file__).parent.parent

#: The schemas of kafkawire itself, and the package of the code generated from them.
SCHEMAS: Final = _PACKAGE / "schemas"
OUT: Final = _PACKAGE / "sdk" / "protocol"
