"""What the batches of a stored segment say together: all that a broker rebuilds after a crash.

The extension and Python do the same, batch by batch; a log with ten million batches of one record is read by the
extension in a second or two, and by Python in half a minute. `engines/python_survey.py` documents it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_survey import Survey, SurveyEntry
from kafkawire.sdk.records.engines.selection import native

__all__ = ["Survey", "SurveyEntry"]

if not TYPE_CHECKING and native is not None:
    Survey = native.Survey
