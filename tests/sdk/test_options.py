"""Options are declared once, are read under both of their names, and are rejected with the name, value and limit.

Method: declare a class with one option of each kind, and read tables of accepted and rejected values, in Python and as
text, and of values that contradict each other.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, REQUIRED, Options, Order, choice, flag, literal, number, option, text


def _even(name: str, value: object) -> object:
    if not isinstance(value, int) or value % 2:
        raise ConfigurationError(name, value, "expected an even number")
    return value


class Common(Options):
    host: str = text(REQUIRED, kafka="the.host")


class Python(Common):
    port: int = number(1, 0, 10, kafka="the.port")
    count: int = number(5, 0)
    eager: bool = flag(True, kafka="be.eager")
    rack: str | None = text(None)
    mode: str = choice("slow", "slow", "fast")
    pairs: int = option(2, _even, "int")

    ORDERS = (
        Order("pairs", "count", "pairs would be torn"),
        Order("port", "count", "nothing would listen", strict=True),
    )


class CommandLine(Common, from_text=True):
    port: int = number(1, 0, 10)
    eager: bool = flag(True)
    pairs: int = option(2, _even, "int")


def read(kind: type[Options], **given: object) -> Options:
    return kind.read((("host", "h"), *((name.replace("__", "."), value) for name, value in given.items())))


def test_defaults() -> None:
    options = Python.read([("the.host", "h")])
    assert vars(options) == {
        "host": "h", "port": 1, "count": 5, "eager": True, "rack": None, "mode": "slow", "pairs": 2
    }  # fmt: skip
    assert repr(options) == "Python(host='h')"
    assert vars(Python(host="h")) == vars(options)


@pytest.mark.parametrize(
    ("kind", "name", "value", "attribute", "expected"),
    [
        (Python, "port", 10, "port", 10),
        (Python, "the__port", 0, "port", 0),
        (Python, "count", INT32_MAX, "count", INT32_MAX),
        (Python, "be__eager", False, "eager", False),
        (Python, "rack", "a", "rack", "a"),
        (Python, "mode", "fast", "mode", "fast"),
        (Python, "pairs", 4, "pairs", 4),
        (Python, "the__port", "3", "port", 3),
        (Python, "be__eager", "FALSE", "eager", False),
        (CommandLine, "port", "007", "port", 7),
        (CommandLine, "port", "10", "port", 10),
        (CommandLine, "port", 10, "port", 10),
        (CommandLine, "eager", "False", "eager", False),
        (CommandLine, "eager", "true", "eager", True),
        (CommandLine, "eager", True, "eager", True),
    ],
)
def test_accepted(kind: type[Options], name: str, value: object, attribute: str, expected: object) -> None:
    more = {"count": INT32_MAX} if kind is Python else {}
    options = read(kind, **{**more, name: value})
    assert getattr(options, attribute) == expected
    assert vars(options) == vars(kind(host="h", **{**more, attribute: expected}))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Python, {"prot": 1}, "prot=1: no such option; did you mean port?"),
        (Python, {"the__prot": 1}, "the.prot=1: no such option; did you mean the.port?"),
        (Python, {"xyzzy": 1}, "xyzzy=1: no such option"),
        (Python, {"port": 1, "the__port": 2}, "the.port=2: port was already given"),
        (Python, {"port": 11}, "port=11: expected 0 to 10"),
        (Python, {"the__port": -1}, "the.port=-1: expected 0 to 10"),
        (Python, {"count": INT32_MAX + 1}, "count=2147483648: expected 0 to 2147483647"),
        (Python, {"port": "1"}, "port='1': expected an integer"),
        (Python, {"the__port": "many"}, "the.port='many': expected an integer"),
        (Python, {"the__port": " 1"}, "the.port=' 1': expected an integer"),
        (Python, {"the__port": "1_0"}, "the.port='1_0': expected an integer"),
        (Python, {"the__port": "1.0"}, "the.port='1.0': expected an integer"),
        (Python, {"the__port": "\u0661"}, "the.port='\u0661': expected an integer"),
        (Python, {"the__port": "9" * 101}, f"the.port='{'9' * 101}': expected an integer"),
        (Python, {"the__port": "11"}, "the.port=11: expected 0 to 10"),
        (Python, {"the__port": True}, "the.port=True: expected an integer"),
        (Python, {"be__eager": "yes"}, "be.eager='yes': expected True or False"),
        (Python, {"the_port": 1}, "the_port=1: no such option; here it is port"),
        (Python, {"be_eager": 1}, "be_eager=1: no such option; here it is eager"),
        (Python, {"a_password": "x"}, "a_password=<hidden>: no such option"),
        (Python, {"port": None}, "port=None: None is not allowed; leave the option out for the default, 1"),
        (Python, {"mode": None}, "mode=None: None is not allowed; leave the option out for the default, 'slow'"),
        (Python, {"port": True}, "port=True: expected an integer"),
        (Python, {"port": 1.0}, "port=1.0: expected an integer"),
        (Python, {"eager": "true"}, "eager='true': expected True or False"),
        (Python, {"rack": 1}, "rack=1: expected a string"),
        (Python, {"rack": b"a"}, "rack=b'a': expected a string, not bytes"),
        (Python, {"mode": "medium"}, "mode='medium': expected one of slow, fast"),
        (Python, {"pairs": 3}, "pairs=3: expected an even number"),
        (CommandLine, {"port": "many"}, "port='many': expected an integer"),
        (CommandLine, {"port": "11"}, "port=11: expected 0 to 10"),
        (CommandLine, {"eager": "perhaps"}, "eager='perhaps': expected True or False"),
        (CommandLine, {"pairs": "4"}, "pairs='4': expected an even number"),
    ],
)
def test_refused(kind: type[Options], given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(kind, **given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "host=None: a value is needed, since there is no default"),
        ([("host", None)], "host=None: a value is needed, since there is no default"),
    ],
)
def test_a_required_option(given: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Python.read(given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": 4, "count": 3}, "pairs=4: expected at most count=3; otherwise pairs would be torn"),
        ({"count": 1}, "count=1: expected at least pairs=2 (the default); otherwise pairs would be torn"),
        ({"count": 2, "pairs": 2, "port": 2}, "port=2: expected less than count=2; otherwise nothing would listen"),
        ({"count": 0}, "count=0: expected more than port=0; otherwise nothing would listen"),
    ],
)
def test_values_that_contradict_each_other(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(Python, **given)
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [{"pairs": 4}, {"port": 4}, {"port": 7, "count": 8, "pairs": 8}])
def test_values_that_go_together(given: dict[str, object]) -> None:
    assert read(Python, **given)


class Times(Options):
    pause: int = number(5, 0)
    attempt: int = number(30, 1)
    whole: int = number(100, 1, 200)
    beat: int = number(3, 1)
    session: int = number(45, 1)

    ORDERS = (
        Order("pause", "whole", "nothing would be left", plus=("attempt",)),
        Order("beat", "session", "it would end", strict=True, times=3),
    )


@pytest.mark.parametrize(
    ("given", "yielding"),
    [
        ({}, {}),
        ({"whole": 35}, {}),
        ({"whole": 34}, {"attempt": 29}),
        ({"whole": 3}, {"attempt": 1, "pause": 2}),
        ({"whole": 34, "attempt": 30}, {"pause": 4}),
        ({"attempt": 150}, {"whole": 155}),
        ({"attempt": 150, "pause": 20}, {"whole": 170}),
        ({"session": 44}, {}),
        ({"session": 3}, {"beat": 1}),
        ({"beat": 44}, {}),
        ({"beat": 45}, {"session": 135}),
    ],
)
def test_an_option_that_was_not_given_yields(given: dict[str, int], yielding: dict[str, int]) -> None:
    assert vars(Times.read(given.items())) == {**vars(Times()), **given, **yielding}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"attempt": 9, "whole": 8},
            "whole=8: expected at least pause=0 + attempt=9; otherwise nothing would be left",
        ),
        ({"attempt": 201}, "whole=100: expected at least pause=0 + attempt=201; otherwise nothing would be left"),
        ({"session": 1}, "session=1: expected more than beat=1; otherwise it would end"),
        ({"beat": 5, "session": 5}, "beat=5: expected less than session=5; otherwise it would end"),
    ],
)
def test_an_option_that_cannot_yield_so_far(given: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Times.read(given.items())
    assert str(caught.value) == message


def test_types_for_annotations() -> None:
    accepts = {name: option.accepts for name, option in Python.OPTIONS.items()}
    assert accepts == {
        "host": "str",
        "port": "int",
        "count": "int",
        "eager": "bool",
        "rack": "str | None",
        "mode": 'Literal["slow", "fast"]',
        "pairs": "int",
    }
    assert literal("a", 1) == 'Literal["a", 1]'
    assert Python.OPTIONS["port"].limits == "0 to 10"


def test_read_only() -> None:
    options = Python(host="h")
    with pytest.raises(AttributeError, match=r"Python\.port cannot be changed"):
        options.port = 2
    assert options.port == 1
