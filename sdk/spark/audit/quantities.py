"""Numbers as people read them in the report: counts, bytes, times and spans, each short."""

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

#: What stands where nothing is known.
NONE: Final = "\N{EN DASH}"

_THOUSANDS: Final = ("", " k", " M", " G", " T", " P", " E")
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))

#: What `datetime` can hold.
_TIME_MS_MAX: Final = 253_402_300_799_000


def count_text(number: float) -> str:
    """Return a count: 950, 12.3 k, 4.56 M."""
    return _scaled(number, 1000, _THOUSANDS)


def bytes_text(number: float) -> str:
    """Return a size: 512 B, 1.50 MiB."""
    return _scaled(number, 1024, tuple(f" {unit}" for unit in _BYTES))


def number_text(number: int | None) -> str:
    """Return a number with all its digits; a dash for none."""
    return NONE if number is None else f"{number:,}"


def range_text(first: int | None, last: int | None) -> str:
    """Return two numbers with a dash between them; a dash alone for none."""
    return NONE if first is None or last is None else f"{first:,} \N{EN DASH} {last:,}"


def percent_text(part: float) -> str:
    """Return a part of 1 as a percentage; one that is not nothing is not shown as 0."""
    if 0 < part < 0.001:
        return "< 0.1 %"
    return f"{part:.1%}".replace("%", " %").replace(".0 ", " ")


def ratio_text(ratio: float | None) -> str:
    """Return how many times smaller something has become; a dash if nobody knows."""
    return NONE if ratio is None else f"{ratio:.2f}\N{MULTIPLICATION SIGN}"


def span_text(milliseconds: float) -> str:
    """Return a span in its two largest units: 2 d 3 h, 1.5 s."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s".replace(".0 s", " s")
    parts: list[str] = []
    left = int(milliseconds)
    for size, unit in _SPANS[:-1]:
        if left >= size or parts:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def time_text(milliseconds: int | None) -> str:
    """Return a time of UTC to the second; a dash for none."""
    if milliseconds is None or not 0 <= milliseconds <= _TIME_MS_MAX:
        return NONE
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def day_text(milliseconds: int, step_ms: float) -> str:
    """Return a time for an axis whose marks are so far apart."""
    time = datetime.fromtimestamp(min(max(milliseconds, 0), _TIME_MS_MAX) / 1000, UTC)
    if step_ms < 60_000:
        return time.strftime("%H:%M:%S")
    if step_ms < 86_400_000:
        is_midnight = (time.hour, time.minute) == (0, 0)
        return time.strftime("%d %b" if is_midnight else "%H:%M")
    return time.strftime("%d %b" if step_ms < 30 * 86_400_000 else "%b %Y")


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    scaled, index = float(number), 0
    while abs(scaled) >= base and index + 1 < len(units):
        scaled /= base
        index += 1
    if index == 0:
        return f"{scaled:.0f}{units[0]}" if scaled == int(scaled) else f"{scaled:.2f}{units[0]}"
    digits = 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    return f"{scaled:.{digits}f}{units[index]}"


def partitions_text(count: int, first: int) -> str:
    """Return which partition, or how many of them if it is more than one.

    Args:
        count: of partitions.
        first: the number of one of them.
    """
    return f"partition {first}" if count == 1 else f"{count:,} partitions"
