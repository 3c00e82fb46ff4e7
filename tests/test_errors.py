"""Every error is public in `kafkawire.errors`, and its documentation says what it means and what to do about it.

Method: compare the public module with the one that defines the errors, and check their docstrings.
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
    """After the sentence about the cause, a paragraph describes the consequences for the program."""
    cls = getattr(errors, name)
    about, _, _ = (inspect.getdoc(cls) or "").partition("\n\nArgs:")
    happened, _, advice = about.partition("\n\n")
    assert cls.__doc__ is not None
    assert happened.endswith(".")
    assert advice.endswith(".")


def test_no_two_errors_have_one_text() -> None:
    texts = [getattr(errors, name).__doc__ for name in errors.__all__]
    assert len(texts) == len(set(texts))
