"""A report says whether the broker would start: only errors prevent that.

Method: build reports with one finding of each kind.
"""

from __future__ import annotations

import pytest

from kafkawire.commands.broker.findings import Finding, Kind, Report


@pytest.mark.parametrize("kind", Kind)
def test_only_errors_prevent_a_start(kind):
    report = Report("standalone", 1, None, (), None, 1024, (), (Finding(kind, "subject", "text."),))
    assert report.would_start is (kind is not Kind.ERROR)
