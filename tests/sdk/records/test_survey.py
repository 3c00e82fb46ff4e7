"""The current engine's class is exported; `engines/test_python_survey.py` tests both engines.

Method: compare the exported class with the engine's.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines import python_survey, selection
from kafkawire.sdk.records.survey import Survey


def test_the_engine_in_use() -> None:
    assert Survey is (selection.native or python_survey).Survey
