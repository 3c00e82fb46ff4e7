"""Plots as SVG for the report: nothing but marks, text and titles on hover, coloured by the page's style sheet.

All text is escaped here: names of topics and keys may contain anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from kafkawire.sdk.spark.audit.quantities import bytes_text, day_text, percent_text, time_text

__all__ = ["WIDE", "Bar", "Part", "Series", "TimeFrame", "bars", "columns", "lines", "lorenz", "split", "stacked"]

#: The width of a plot across half the page, and across all of it: about its pixels, so that text has the same size in
#: all plots.
_WIDTH: Final = 540
WIDE: Final = 1110
_SMALL: Final = 340
_HEIGHT: Final = 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 10, 24

#: Between two marks of a time axis, in ms.
_TIME_STEPS: Final = tuple(
    1000 * seconds
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
        *(86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000),
    )
)


class Series(NamedTuple):
    """Numbers over time.

    Attributes:
        name: what the legend calls them.
        points: the time of each in ms, and the number.
        style: the CSS class of their colour.
    """

    name: str
    points: Sequence[tuple[int, float]]
    style: str


class TimeFrame(NamedTuple):
    """What a time axis shows.

    Attributes:
        start_ms: where it begins.
        end_ms: where it ends.
        step_ms: the time that a point stands for.
    """

    start_ms: int
    end_ms: int
    step_ms: int


class Bar(NamedTuple):
    """A bar with its name.

    Attributes:
        name: the text beside it.
        value: its length.
        text: the value as people read it.
        title: the text on hover.
        style: the CSS class of its colour.
        outline: the length of a pale bar behind it; 0 for none.
    """

    name: str
    value: float
    text: str
    title: str
    style: str = "c1"
    outline: float = 0


class Part(NamedTuple):
    """A part of a whole.

    Attributes:
        name: what the legend calls it.
        value: its size.
        text: the value as people read it.
        style: the CSS class of its colour.
    """

    name: str
    value: float
    text: str
    style: str


def stacked(
    series: Sequence[Series], frame: TimeFrame, unit: Callable[[float], str], width: int = _WIDTH, height: int = _HEIGHT
) -> str:
    """Return numbers over time as stacked columns, one for each step."""
    count = max((frame.end_ms - frame.start_ms) // frame.step_ms, 1)
    totals = [0.0] * count
    layers: list[tuple[str, list[float], list[float]]] = []
    titles: list[list[str]] = [[] for _ in range(count)]
    for each in series:
        values = [0.0] * count
        for time_ms, value in each.points:
            index = (time_ms - frame.start_ms) // frame.step_ms
            if 0 <= index < count:
                values[index] += value
        base = list(totals)
        totals = [total + value for total, value in zip(totals, values, strict=True)]
        layers.append((each.style, base, list(totals)))
        for index, value in enumerate(values):
            if value:
                titles[index].append(f"{each.name}: {unit(value)}")
    top = _ceiling(max(totals), unit)
    step = (width - _LEFT - _RIGHT) / count
    gap = min(step * 0.12, 1)
    body = [_grid(top, unit, width, height), _time_marks(frame, width, height)]
    for style, base, reached in layers:
        path = "".join(
            f"M{_LEFT + index * step:.1f} {_y(low, top, height):.1f}V{_y(high, top, height):.1f}"
            f"h{step - gap:.1f}V{_y(low, top, height):.1f}z"
            for index, (low, high) in enumerate(zip(base, reached, strict=True))
            if high > low
        )
        body.append(f'<path class="{style}" d="{path}"/>')
    for index, lines_of in enumerate(titles):
        if lines_of:
            when = time_text(frame.start_ms + index * frame.step_ms)
            body.append(_hover(_LEFT + index * step, step, height, "\n".join([when, *reversed(lines_of)])))
    return _svg(body, width, height)


def lines(
    series: Sequence[Series], frame: TimeFrame, unit: Callable[[float], str], width: int = _WIDTH, height: int = _HEIGHT
) -> str:
    """Return numbers over time as lines that stay level until the next point."""
    top = _ceiling(max((value for each in series for _, value in each.points), default=0), unit)
    span = max(frame.end_ms - frame.start_ms, 1)

    def x(time_ms: int) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * min(max(time_ms - frame.start_ms, 0), span) / span

    body = [_grid(top, unit, width, height), _time_marks(frame, width, height)]
    for each in series:
        if not each.points:
            continue
        first_ms, first = each.points[0]
        path = [f"M{x(first_ms):.1f} {_y(first, top, height):.1f}"]
        path += [f"H{x(time_ms):.1f}V{_y(value, top, height):.1f}" for time_ms, value in each.points[1:]]
        path.append(f"H{width - _RIGHT}")
        title = f"{each.name}: {unit(each.points[-1][1])} at the end, at most {unit(max(v for _, v in each.points))}"
        body.append(f'<path class="line {each.style}" d="{"".join(path)}"><title>{escape(title)}</title></path>')
        last = each.points[-1][1]
        body.append(
            f'<circle class="{each.style}" cx="{width - _RIGHT}" cy="{_y(last, top, height):.1f}" r="3">'
            f"<title>{escape(title)}</title></circle>"
        )
    return _svg(body, width, height)


def bars(items: Sequence[Bar], name_width: int = 150, width: int = _WIDTH) -> str:
    """Return bars below each other, each with its name and value."""
    top = max((max(item.value, item.outline) for item in items), default=0) or 1
    room = width - name_width - 104
    height = 24 * len(items) + 4
    body = []
    for number, item in enumerate(items):
        y = 24 * number + 4
        length = max(room * item.value / top, 1)
        body.append(f"<g><title>{escape(item.title)}</title>")
        body.append(f'<rect class="ghost" x="0" y="{y - 2}" width="{width}" height="22"/>')
        body.append(
            f'<text x="{name_width - 8}" y="{y + 13}" class="name">{escape(_cut(item.name, name_width))}</text>'
        )
        end = length
        if item.outline > item.value:
            end = max(room * item.outline / top, 1)
            body.append(
                f'<rect class="{item.style} faint" x="{name_width}" y="{y + 1}" width="{end:.1f}" height="16" rx="2"/>'
            )
        body.append(
            f'<rect class="{item.style}" x="{name_width}" y="{y + 1}" width="{length:.1f}" height="16" rx="2"/>'
        )
        body.append(f'<text x="{name_width + end + 6:.1f}" y="{y + 13}" class="value">{escape(item.text)}</text></g>')
    return _svg(body, width, height)


def columns(items: Sequence[Bar], unit: Callable[[float], str]) -> str:
    """Return columns beside each other, with names below where there is room."""
    top = _ceiling(max((item.value for item in items), default=0), unit)
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(items), 1)
    bar = min(max(width * 0.72, width - 3), 46) if width > 3 else width
    longest = max((len(item.name) for item in items), default=1)
    every = max(1, -(-(longest * 7 + 6) // max(int(width), 1)))
    body = [_grid(top, unit, _WIDTH, _HEIGHT)]
    for number, item in enumerate(items):
        x = _LEFT + number * width
        y = _y(item.value, top, _HEIGHT)
        body.append(f"<g><title>{escape(item.title)}</title>")
        body.append(
            f'<rect class="ghost" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{_HEIGHT - _TOP - _BOTTOM}"/>'
        )
        left = x + (width - bar) / 2
        tall = _HEIGHT - _BOTTOM - y
        if item.value:
            body.append(
                f'<rect class="{item.style}" x="{left:.1f}" y="{min(y, _HEIGHT - _BOTTOM - 1):.1f}" width="{bar:.1f}" '
                f'height="{max(tall, 1):.1f}" rx="{min(2, bar / 4):.1f}"/>'
            )
        if number % every == 0:
            body.append(f'<text class="tick mid" x="{x + width / 2:.1f}" y="{_HEIGHT - 8}">{escape(item.name)}</text>')
        body.append("</g>")
    return _svg(body, _WIDTH, _HEIGHT)


def lorenz(points: Sequence[tuple[float, float]], title: str) -> str:
    """Return a Lorenz curve: the share of the records (upwards) that belongs to a share of the keys, rarest first."""
    width, size = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(keys: float, records: float) -> str:
        return f"{_LEFT + keys * width:.1f} {_TOP + (1 - records) * size:.1f}"

    path = "L".join(place(*point) for point in [(0.0, 0.0), *points])
    body = [_grid(1, percent_text, _WIDTH, _HEIGHT)]
    body.append(f'<path class="even" d="M{place(0, 0)}L{place(1, 1)}"/>')
    body.append(f'<path class="c1 faint" d="M{path}L{place(1, 0)}z"/>')
    body.append(f'<path class="line c1" d="M{path}"><title>{escape(title)}</title></path>')
    for part in (0, 0.25, 0.5, 0.75, 1):
        anchor = "mid" if 0 < part < 1 else "first" if part == 0 else "last"
        body.append(
            f'<text class="tick {anchor}" x="{_LEFT + part * width:.1f}" y="{_HEIGHT - 8}">{percent_text(part)}'
            f"{' of keys' if part == 1 else ''}</text>"
        )
    return _svg(body, _WIDTH, _HEIGHT)


def split(parts: Sequence[Part]) -> str:
    """Return a whole as one bar of its parts, with a legend below."""
    total = sum(part.value for part in parts) or 1
    x, width, body, legend = 0.0, _SMALL, [], []
    for part in parts:
        part_width = width * part.value / total
        title = f"{part.name}: {part.text}, {percent_text(part.value / total)}"
        if part.value:
            shown = f"{max(part_width - 1.5, 0.5):.1f}"
            body.append(
                f'<rect class="{part.style}" x="{x:.1f}" y="0" width="{shown}" height="22" rx="2">'
                f"<title>{escape(title)}</title></rect>"
            )
        x += part_width
        legend.append(
            f'<span><i class="{part.style}"></i>{escape(part.name)} <b>{escape(part.text)}</b> '
            f"{percent_text(part.value / total)}</span>"
        )
    return f'{_svg(body, width, 22)}<p class="legend">{"".join(legend)}</p>'


def _svg(body: Sequence[str], width: int, height: int) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(body)}</svg>'


def _y(value: float, top: float, height: int) -> float:
    return height - _BOTTOM - (height - _TOP - _BOTTOM) * value / top


def _grid(top: float, unit: Callable[[float], str], width: int, height: int) -> str:
    marks = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = _y(part * top, top, height)
        marks.append(f'<path class="{"axis" if part == 0 else "grid"}" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
        if part in (0, 0.5, 1):
            marks.append(f'<text class="tick last" x="{_LEFT - 6}" y="{y + 3.5:.1f}">{escape(unit(part * top))}</text>')
    return "".join(marks)


def _time_marks(frame: TimeFrame, width: int, height: int) -> str:
    span = max(frame.end_ms - frame.start_ms, 1)
    step = next((each for each in _TIME_STEPS if span / each <= width / 75), _TIME_STEPS[-1])
    marks = []
    time_ms = -(-frame.start_ms // step) * step
    while time_ms <= frame.end_ms:
        x = _LEFT + (width - _LEFT - _RIGHT) * (time_ms - frame.start_ms) / span
        if _LEFT + 12 < x < width - 24:
            marks.append(f'<path class="axis" d="M{x:.1f} {height - _BOTTOM}v4"/>')
            marks.append(f'<text class="tick mid" x="{x:.1f}" y="{height - 8}">{day_text(time_ms, step)}</text>')
        time_ms += step
    return "".join(marks)


def _hover(x: float, width: float, height: int, title: str) -> str:
    tall = height - _TOP - _BOTTOM
    return (
        f'<rect class="ghost" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{tall}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _ceiling(value: float, unit: Callable[[float], str]) -> float:
    """Return a round number that is not below a value; for bytes, one that is round in KiB, MiB and so on."""
    if value <= 0:
        return 1
    scale = 1.0
    while unit is bytes_text and scale * 1024 <= value:
        scale *= 1024
    power = scale
    while power * 10 <= value:
        power *= 10
    return next(part * power for part in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10) if part * power >= value)


def _cut(name: str, width: int) -> str:
    room = max(width // 7, 4)
    return name if len(name) <= room else f"{name[: room - 1]}…"
