"""Declare options and read them: names, types, ranges, defaults.

Clients and the broker each declare their own as attributes of a class derived from `Options`; reading and errors are
shared. An option has a name in snake_case and, if Kafka has it too, the dotted name of Kafka's documentation. These are
plain classes because a dataclass costs a program about a millisecond at start.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["INT32_MAX", "REQUIRED", "Option", "Options", "choice", "flag", "number", "option", "text"]

#: Kafka keeps most numbers as int32.
INT32_MAX: Final = 2**31 - 1

#: The default of an option that must be given.
REQUIRED: Final[Any] = object()

#: Takes the name as the user wrote it and the value; returns the value to store, or raises `ConfigurationError`.
Reader = Callable[[str, object], object]


class Option(NamedTuple):
    """One option.

    Attributes:
        default: the value if none is given; `REQUIRED` if one must be given.
        read: checks a value.
        kafka_name: the name in Kafka's documentation, None for an option that Kafka does not have.
        parse: converts text to a value for `read`, or returns it unchanged; None for options that are text.
    """

    default: object
    read: Reader
    kafka_name: str | None = None
    parse: Callable[[str], object] | None = None


class Options:
    """Options with their values; read-only.

    Args:
        values: values that differ from the defaults. They are not checked: use `read` for a user's input.
    """

    #: Every option by its name.
    OPTIONS: ClassVar[Mapping[str, Option]] = {}
    #: Names by the dotted name of Kafka's documentation.
    KAFKA_NAMES: ClassVar[Mapping[str, str]] = {}
    #: Whether numbers and booleans may be given as text, as on a command line.
    FROM_TEXT: ClassVar[bool] = False

    def __init_subclass__(cls, from_text: bool = False, more: Mapping[str, Option] | None = None) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Option)}
        for name in declared:
            delattr(cls, name)
        cls.OPTIONS = {**cls.OPTIONS, **declared, **(more or {})}
        cls.KAFKA_NAMES = {option.kafka_name: name for name, option in cls.OPTIONS.items() if option.kafka_name}
        cls.FROM_TEXT = from_text

    def __init__(self, **values: object) -> None:
        vars(self).update({name: option.default for name, option in self.OPTIONS.items()} | values)

    @classmethod
    def read(cls, given: Iterable[tuple[str, object]]) -> Self:
        """Check a user's input.

        Args:
            given: (name, value) pairs; names dotted or in snake_case.

        Raises:
            ConfigurationError: a name is unknown or given twice, a required one is missing, or a value is refused.
        """
        values: dict[str, object] = {}
        for given_name, value in given:
            name = cls.KAFKA_NAMES.get(given_name, given_name)
            if name not in cls.OPTIONS:
                raise ConfigurationError(given_name, value, cls._unknown(given_name))
            if name in values:
                raise ConfigurationError(given_name, value, f"{name} was given already")
            option = cls.OPTIONS[name]
            if cls.FROM_TEXT and option.parse is not None and isinstance(value, str):
                value = option.parse(value)
            values[name] = option.read(given_name, value)
        for name, option in cls.OPTIONS.items():
            if option.default is REQUIRED and name not in values:
                raise ConfigurationError(name, None, "a value is needed, there is no default")
        return cls(**values)

    @classmethod
    def _unknown(cls, name: str) -> str:
        import difflib  # only needed for an error

        near = difflib.get_close_matches(name, [*cls.OPTIONS, *cls.KAFKA_NAMES], n=1)
        return f"no such option; did you mean {near[0]}?" if near else "no such option"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in vars(self).items() if value != self.OPTIONS[name].default)
        return f"{type(self).__name__}({', '.join(values)})"


def number(default: int, low: int, high: int = INT32_MAX, *, kafka: str | None = None) -> Any:
    """Declare an integer from `low` to `high`, both included."""

    def read(name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(name, value, "expected an integer")
        if not low <= value <= high:
            raise ConfigurationError(name, value, f"expected {low} to {high}")
        return value

    return Option(default, read, kafka, _integer)


def flag(default: bool, *, kafka: str | None = None) -> Any:
    """Declare a boolean."""
    return Option(default, _read_flag, kafka, _boolean)


def text(default: str | None, *, kafka: str | None = None) -> Any:
    """Declare a text option; None is accepted if it is the default."""

    def read(name: str, value: object) -> str | None:
        if not isinstance(value, str) and (value is not None or default is not None):
            raise ConfigurationError(name, value, "expected a string")
        return value

    return Option(default, read, kafka)


def choice(default: str, *values: str, kafka: str | None = None) -> Any:
    """Declare an option with a few possible values."""

    def read(name: str, value: object) -> object:
        if value not in values:
            raise ConfigurationError(name, value, f"expected one of {', '.join(values)}")
        return value

    return Option(default, read, kafka)


def option(default: object, read: Reader, *, kafka: str | None = None) -> Any:
    """Declare an option with its own reader."""
    return Option(default, read, kafka)


def _read_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(name, value, "expected True or False")
    return value


def _integer(value: str) -> object:
    try:
        return int(value)
    except ValueError:
        return value


def _boolean(value: str) -> object:
    return {"true": True, "false": False}.get(value.lower(), value)
