"""Every error is public in `kafkawire.errors`, and documents its meaning and what to do about it.

Method: the public module is compared with the one that defines the errors; docstrings are checked.
"""

from __future__ import annotations

import inspect

import pytest

from kafkawire import errors
from kafkawire.sdk import errors as defined


def test_every_error_is_public() -> None:
    assert set(errors.__all__) == {*defined.__all__, "ErrorCode"}
    assert all(getattr(errors, name) is getattr(defined, name) for name in defined.__all__)


@pytest.mark.parametrize("name", defined.__all__)
def test_an_error_says_what_to_do(name: str) -> None:
    """The sentence on the cause is followed by a paragraph on the consequences for the program."""
    cls = getattr(errors, name)
    about, _, _ = (inspect.getdoc(cls) or "").partition("\n\nArgs:")
    happened, _, advice = about.partition("\n\n")
    assert cls.__doc__ is not None
    assert happened.endswith(".")
    assert advice.endswith(".")


def test_no_two_errors_have_one_text() -> None:
    texts = [getattr(errors, name).__doc__ for name in errors.__all__]
    assert len(texts) == len(set(texts))
