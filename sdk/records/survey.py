"""Summarize the batches of a stored segment: everything that a broker rebuilds after a crash.

For a log with ten million single-record batches, the extension needs a second or two, the Python engine half a minute.
`engines/python_survey.py` documents the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_survey import Survey, SurveyEntry
from kafkawire.sdk.records.engines.selection import native

__all__ = ["Survey", "SurveyEntry"]

if not TYPE_CHECKING and native is not None:
    Survey = native.Survey
