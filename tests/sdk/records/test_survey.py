"""The survey of the engine in use is taken; `engines/test_python_survey.py` tries both.

Method: the name is the one of the engine.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines import python_survey, selection
from kafkawire.sdk.records.survey import Survey


def test_the_engine_in_use() -> None:
    assert Survey is (selection.native or python_survey).Survey
