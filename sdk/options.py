"""Declare options and read them: names, types, ranges, defaults.

Clients and the broker each declare their own options as attributes of a class derived from `Options`, which reads them
and reports errors. An option has a name in snake_case and, if Kafka has it too, the dotted name from Kafka's
documentation. Under Kafka's name, numbers and booleans may also be text, as in a properties file. The keywords for type
checkers and docs/options.md are generated from these declarations (tools/options.py). These are plain classes because a
dataclass would add about a millisecond to a program's startup.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.near_names import did_you_mean

__all__ = [
    "INT32_MAX",
    "INT64_MAX",
    "REQUIRED",
    "Option",
    "Options",
    "Order",
    "Reader",
    "choice",
    "flag",
    "listed",
    "literal",
    "number",
    "option",
    "parse_boolean",
    "parse_integer",
    "read_text",
    "text",
    "written",
]

#: Kafka stores most numbers as int32.
INT32_MAX: Final = 2**31 - 1

#: Offsets and times are int64.
INT64_MAX: Final = 2**63 - 1

#: The default of an option that must be given.
REQUIRED: Final[Any] = object()

#: The default of `listed`.
_NO_SYNONYMS: Final[Mapping[str, str]] = MappingProxyType({})

#: No option has a number with this many digits, and Python refuses to convert text with 5,000 digits.
_DIGITS_MAX = 100

_DECIMAL = re.compile(r"[+-]?[0-9]+")

#: Takes the value and the name as the user wrote it; returns the value to store, or raises `ConfigurationError`.
Reader = Callable[[str, object], object]


class Option(NamedTuple):
    """One option.

    Attributes:
        default: the value if none is given; `REQUIRED` if a value must be given.
        read: checks a value.
        kafka_name: the name in Kafka's documentation; None for an option that Kafka does not have.
        parse: converts text to a value for `read`, or returns it unchanged; None for options that are text.
        accepts: the type of a value, as an annotation.
        limits: the allowed values of that type, in words; empty if all are allowed.
        lowest: the lowest value of a number.
    """

    default: object
    read: Reader
    kafka_name: str | None = None
    parse: Callable[[str], object] | None = None
    accepts: str = "object"
    limits: str = ""
    lowest: int = 0


class Order(NamedTuple):
    """A rule for options: `lower`, plus the options in `plus`, is at most `upper`.

    Options that were not given yield to those that were: `upper` is raised, or one of the others lowered, as much as
    necessary.

    Attributes:
        lower: the name of one option.
        upper: the name of the other.
        otherwise: the consequence of breaking the rule.
        strict: whether equality breaks the rule as well.
        plus: names of options that are added to `lower`.
        times: how many times `lower` fits into `upper` if one of them yields.
    """

    lower: str
    upper: str
    otherwise: str
    strict: bool = False
    plus: tuple[str, ...] = ()
    times: int = 1

    @property
    def lowers(self) -> tuple[str, ...]:
        """The names of all options on the lower side."""
        return self.lower, *self.plus

    def holds(self, options: "Options") -> bool:
        """Return whether the options satisfy the rule."""
        low, high = sum(getattr(options, name) for name in self.lowers), getattr(options, self.upper)
        return bool(low < high or (low == high and not self.strict))

    def yielding(self, options: "Options", given: Collection[str]) -> list[str]:
        """Return the options that may yield if the rule is broken, in the order in which they do."""
        if self.holds(options):
            return []
        lowers = sorted(self.lowers, key=lambda name: -getattr(options, name))
        return [name for name in (self.upper, *lowers) if name not in given]

    def wanted(self, name: str, options: "Options") -> int:
        """Return a value with which an option satisfies the rule."""
        apart = int(self.strict and self.times == 1)
        others: int = sum(getattr(options, each) for each in self.lowers if each != name)
        if name == self.upper:
            return others * self.times + apart
        upper: int = getattr(options, self.upper)
        return (upper - others) // self.times - apart


class Options:
    """Options with their values; read-only.

    Args:
        values: the values that differ from the defaults, keyed by option name; they are not checked: use `read` for a
            user's input.
    """

    #: Every option, keyed by name.
    OPTIONS: ClassVar[Mapping[str, Option]] = {}
    #: Option names, keyed by the dotted name from Kafka's documentation.
    KAFKA_NAMES: ClassVar[Mapping[str, str]] = {}
    #: Option names, keyed by names of other clients that mean exactly the same; their values may be text, too.
    ALIASES: ClassVar[Mapping[str, str]] = {}
    #: Whether numbers and booleans may be text under every name, as on a command line.
    FROM_TEXT: ClassVar[bool] = False
    #: The rules between options.
    ORDERS: ClassVar[tuple[Order, ...]] = ()

    def __init_subclass__(cls, from_text: bool = False, more: Mapping[str, Option] | None = None) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Option)}
        for name in declared:
            delattr(cls, name)
        inherited = {name: value for base in cls.__bases__ for name, value in getattr(base, "OPTIONS", {}).items()}
        cls.OPTIONS = {**inherited, **declared, **(more or {})}
        cls.KAFKA_NAMES = {option.kafka_name: name for name, option in cls.OPTIONS.items() if option.kafka_name}
        cls.FROM_TEXT = from_text

    def __init__(self, **values: object) -> None:
        vars(self).update({name: option.default for name, option in self.OPTIONS.items()} | values)

    @classmethod
    def read(cls, given: Iterable[tuple[str, object]]) -> Self:
        """Check a user's input.

        Args:
            given: (name, value) pairs; the names are dotted or in snake_case.

        Raises:
            ConfigurationError: names are unknown, of which the error lists all; a name is given twice, a required one
                is missing, a value is invalid, or two values contradict each other.
        """
        values: dict[str, object] = {}
        pairs = [*given]
        unknown = [
            ConfigurationError(name, value, cls.unknown(name)) for name, value in pairs if cls.own_name(name) is None
        ]
        if unknown:
            raise ConfigurationError.joined(unknown)
        for given_name, value in pairs:
            name = cls.own_name(given_name) or given_name
            if name in values:
                raise ConfigurationError(given_name, value, f"{name} was already given")
            values[name] = cls.read_value(given_name, value)
        for name, option in cls.OPTIONS.items():
            if option.default is REQUIRED and name not in values:
                raise ConfigurationError(name, None, "a value is needed, since there is no default")
        options = cls(**values)._yielding(values.keys())
        options.check(values.keys())
        return options

    def _yielding(self, given: Collection[str]) -> Self:
        """Return options in which those that were not given yield to those that were, if possible."""
        options = self
        for order in self.ORDERS * 2:  # an option that yields may require another to yield
            for name in order.yielding(options, given):
                if not order.holds(options):
                    value = max(order.wanted(name, options), self.OPTIONS[name].lowest)
                    with suppress(ConfigurationError):  # `check` rejects a contradiction
                        options = type(self)(**vars(options) | {name: self.read_value(name, value)})
        return options

    def check(self, given: Collection[str]) -> None:
        """Check the values against each other; a derived class that adds rules also calls this method.

        Args:
            given: the names of the options that were given.

        Raises:
            ConfigurationError: two values contradict each other.
        """
        for order in self.ORDERS:
            if order.holds(self):
                continue
            lower, upper, strict = order.lower, order.upper, order.strict
            if lower in given and not order.plus:
                bound = f"{'less than' if strict else 'at most'} {self.shown(upper, given)}"
                raise ConfigurationError(lower, getattr(self, lower), f"expected {bound}; otherwise {order.otherwise}")
            needed = " + ".join(self.shown(name, given) for name in order.lowers)
            bound = f"{'more than' if strict else 'at least'} {needed}"
            raise ConfigurationError(upper, getattr(self, upper), f"expected {bound}; otherwise {order.otherwise}")

    def shown(self, name: str, given: Collection[str]) -> str:
        """Return an option with its value, for an error about another option."""
        is_default = name not in given and getattr(self, name) == self.OPTIONS[name].default
        return f"{name}={getattr(self, name)}{' (the default)' if is_default else ''}"

    @classmethod
    def own_name(cls, given_name: str) -> str | None:
        """Return the name of the option that a user means; None if there is none."""
        name = cls.KAFKA_NAMES.get(given_name) or cls.ALIASES.get(given_name, given_name)
        return name if name in cls.OPTIONS else None

    @classmethod
    def unknown(cls, name: str) -> str:
        """Return the text of the error about an unknown option name."""
        own = cls.KAFKA_NAMES.get(name.replace("_", "."))
        if own is not None:
            return f"no such option; here it is {own}"
        return f"no such option{did_you_mean(name, [*cls.OPTIONS, *cls.KAFKA_NAMES])}"

    @classmethod
    def read_value(cls, given_name: str, value: object) -> object:
        """Check the value of a single option, and return it in its stored form.

        Args:
            given_name: the name of the option, dotted or in snake_case.
            value: the user's value.

        Raises:
            ConfigurationError: the value is invalid.
        """
        option = cls.OPTIONS[cls.own_name(given_name) or given_name]
        if value is None and option.default is not None:
            needed = "a value is needed, since there is no default"
            left_out = f"None is not allowed; leave the option out for the default, {option.default!r}"
            raise ConfigurationError(given_name, None, needed if option.default is REQUIRED else left_out)
        may_be_text = cls.FROM_TEXT or given_name in cls.KAFKA_NAMES or given_name in cls.ALIASES
        if may_be_text and option.parse is not None and isinstance(value, str):
            value = option.parse(value)
        return option.read(given_name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in vars(self).items() if value != self.OPTIONS[name].default)
        return f"{type(self).__name__}({', '.join(values)})"


def number(
    default: int | None, low: int, high: int = INT32_MAX, *, also: int | None = None, kafka: str | None = None
) -> Any:
    """Declare an integer from `low` to `high` inclusive, or `also`, which has a special meaning.

    None is accepted if it is the default.
    """
    limits = f"{low} to {high}" + ("" if also is None else f", or {also}")

    def read(name: str, value: object) -> int | None:
        if value is None and default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(name, value, "expected an integer")
        if not low <= value <= high and value != also:
            raise ConfigurationError(name, value, f"expected {limits}")
        return value

    return Option(default, read, kafka, parse_integer, "int" if default is not None else "int | None", limits, low)


def flag(default: bool, *, kafka: str | None = None) -> Any:
    """Declare a boolean."""
    return Option(default, _read_flag, kafka, parse_boolean, "bool")


def text(default: str | None, *, kafka: str | None = None) -> Any:
    """Declare a string option; None is accepted if it is the default."""
    return Option(default, read_text, kafka, accepts="str" if default is not None else "str | None")


def choice(default: str, *values: str, kafka: str | None = None) -> Any:
    """Declare an option with a few possible values."""

    def read(name: str, value: object) -> object:
        if value not in values:
            raise ConfigurationError(name, value, f"expected one of {listed(value, values)}")
        return value

    return Option(default, read, kafka, accepts=literal(*values))


def option(
    default: object,
    read: Reader,
    accepts: str,
    *,
    kafka: str | None = None,
    parse: Callable[[str], object] | None = None,
    limits: str = "",
) -> Any:
    """Declare an option with its own reader; see `Option`."""
    return Option(default, read, kafka, parse, accepts, limits)


def listed(value: object, values: Collection[str], *more: str, meant: Mapping[str, str] = _NO_SYNONYMS) -> str:
    """Return the allowed values, and the one that was probably meant, for an error about an invalid value.

    Args:
        value: the user's value.
        values: the allowed values.
        more: other allowed values, in words.
        meant: names that other clients use for some of the values.
    """
    text = ", ".join([*(each or "''" for each in values), *more])
    if not isinstance(value, str):
        return text
    known = meant.get(value.strip().lower())
    return text + (did_you_mean(value, filter(None, values)) if known is None else f"; did you mean {known}?")


def literal(*values: str | int) -> str:
    """Return the type annotation for a choice among values."""
    written = (str(value) if isinstance(value, int) else f'"{value}"' for value in values)
    return f"Literal[{', '.join(written)}]"


def read_text(name: str, value: object) -> str | None:
    """Return a string or None, and reject anything else."""
    if isinstance(value, str) or value is None:
        return value
    is_bytes = isinstance(value, bytes | bytearray | memoryview)
    raise ConfigurationError(name, value, f"expected a string{', not bytes' if is_bytes else ''}")


def written(value: object) -> str:
    """Return the value of an option as text, as in a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_integer(value: str) -> object:
    """Return the number written in decimal digits, or the text itself."""
    return int(value) if len(value) <= _DIGITS_MAX and _DECIMAL.fullmatch(value) else value


def parse_boolean(value: str) -> object:
    """Return the boolean that "true" or "false" stands for, ignoring case, or the text itself."""
    return {"true": True, "false": False}.get(value.lower(), value)


def _read_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(name, value, "expected True or False")
    return value
