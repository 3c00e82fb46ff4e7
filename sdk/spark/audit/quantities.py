"""Numbers in readable form: counts, bytes, times and spans, each in a few characters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = [
    "NONE",
    "bytes_text",
    "count_text",
    "day_text",
    "number_text",
    "partitions_text",
    "percent_text",
    "range_text",
    "ratio_text",
    "span_text",
    "time_text",
]

#: Shown for unknown values.
NONE: Final = "\N{EN DASH}"

_THOUSANDS: Final = ("", " k", " M", " G", " T", " P", " E")
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

#: Pairs of units for a span, each with its length in ms, and the maximum number of the larger unit.
_SPANS: Final = (
    ((60_000, "min"), (1_000, "s"), 60),
    ((3_600_000, "h"), (60_000, "min"), 24),
    ((86_400_000, "d"), (3_600_000, "h"), None),
)

#: The range that `datetime` can represent.
_TIME_MS_MAX: Final = 253_402_300_799_000


def count_text(number: float) -> str:
    """Return a count: 950, 12.3 k, 4.56 M."""
    return _scaled(number, 1000, _THOUSANDS)


def bytes_text(number: float) -> str:
    """Return a size: 512 B, 1.50 MiB."""
    return _scaled(number, 1024, tuple(f" {unit}" for unit in _BYTES))


def number_text(number: int | None) -> str:
    """Return a number with all its digits; a dash for None."""
    return NONE if number is None else f"{number:,}"


def range_text(first: int | None, last: int | None) -> str:
    """Return two numbers with a dash between them; just a dash if either is None."""
    return NONE if first is None or last is None else f"{first:,} \N{EN DASH} {last:,}"


def percent_text(part: float) -> str:
    """Return a fraction as a percentage; only exactly 0 and 1 become 0 and 100."""
    if 0 < part < 0.001:
        return "< 0.1 %"
    if 0.9995 <= part < 1:
        return "> 99.9 %"
    return f"{part:.1%}".replace("%", " %").replace(".0 ", " ")


def ratio_text(ratio: float | None) -> str:
    """Return a compression ratio; a dash for None."""
    return NONE if ratio is None else f"{ratio:.2f}\N{MULTIPLICATION SIGN}"


def span_text(milliseconds: float) -> str:
    """Return a time span in its two largest units: 2 d 3 h, 1.5 s."""
    if round(milliseconds) < 1000:
        return f"{milliseconds:.0f} ms"
    if round(milliseconds / 1000, 1) < 60:
        return f"{milliseconds / 1000:.1f} s".replace(".0 s", " s")
    parts: list[str] = []
    for (size, unit), (small_size, small_unit), limit in _SPANS:
        count, rest = divmod(round(milliseconds / small_size), size // small_size)
        parts = [f"{count} {unit}", *([f"{rest} {small_unit}"] if rest else [])]
        if limit is None or count < limit:
            break
    return " ".join(parts)


def time_text(milliseconds: int | None) -> str:
    """Return a time in UTC to the second; a dash for None and for times that `datetime` cannot represent."""
    if milliseconds is None or not 0 <= milliseconds <= _TIME_MS_MAX:
        return NONE
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def day_text(milliseconds: int, step_ms: float) -> str:
    """Return a time as the label of a mark on an axis.

    Args:
        milliseconds: the time in ms since the epoch.
        step_ms: the distance between marks.
    """
    time = datetime.fromtimestamp(min(max(milliseconds, 0), _TIME_MS_MAX) / 1000, UTC)
    if step_ms < 60_000:
        return time.strftime("%H:%M:%S")
    if step_ms < 86_400_000:
        is_midnight = (time.hour, time.minute) == (0, 0)
        return time.strftime("%d %b" if is_midnight else "%H:%M")
    return time.strftime("%d %b" if step_ms < 30 * 86_400_000 else "%b %Y")


def partitions_text(count: int, first: int) -> str:
    """Return the partition number if there is only one partition, otherwise the number of partitions.

    Args:
        count: the number of partitions.
        first: one of the partition numbers.
    """
    return f"partition {first}" if count == 1 else f"{count:,} partitions"


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    """Return a number in the smallest unit that keeps its rounded value below the base."""
    scaled = float(number)
    for unit in units:
        digits = 0 if unit == units[0] and scaled == int(scaled) else _digits(scaled)
        if abs(round(scaled, digits)) < base:
            return f"{scaled:.{digits}f}{unit}"
        scaled /= base
    return f"{scaled * base:.3g}{units[-1]}"


def _digits(number: float) -> int:
    """Return the number of decimals that leaves three digits in total after rounding."""
    return next((digits for digits in (2, 1) if abs(round(number, digits)) < 10 ** (3 - digits)), 0)
