"""Generate modules from schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["OUT", "SCHEMAS"]

_PACKAGE = Path(__file__).parent.parent

#: kafkawire's own schemas, and the package that contains the code generated from them.
SCHEMAS: Final = _PACKAGE / "schemas"
OUT: Final = _PACKAGE / "sdk" / "protocol"
