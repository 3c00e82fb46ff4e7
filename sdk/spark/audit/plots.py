"""Plots for the report: positions of marks and text, and hover titles. The template `plot.svg.jinja` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.spark.audit.quantities import bytes_text, day_text, percent_text, time_text

__all__ = [
    "WIDE",
    "Bar",
    "Circle",
    "Group",
    "LegendEntry",
    "Mark",
    "Part",
    "Path",
    "Plot",
    "Rect",
    "Series",
    "Text",
    "TimeFrame",
    "bars",
    "columns",
    "lines",
    "lorenz",
    "split",
    "stacked",
]

#: The widths of plots that span half the page or all of it, in approximate pixels, which gives text the same size in
#: all plots.
_WIDTH: Final = 540
WIDE: Final = 1110
_SMALL: Final = 340
_HEIGHT: Final = 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 10, 24

#: Distances between the marks of a time axis, in ms.
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
        name: the name in the legend.
        points: pairs of a time in ms and a number.
        style: the CSS class of their colour.
    """

    name: str
    points: Sequence[tuple[int, float]]
    style: str


class TimeFrame(NamedTuple):
    """The range of a time axis.

    Attributes:
        start_ms: its start.
        end_ms: its end.
        step_ms: the time span that a point covers.
    """

    start_ms: int
    end_ms: int
    step_ms: int


class Bar(NamedTuple):
    """A labelled bar.

    Attributes:
        name: the label.
        value: its length.
        text: the value in readable form.
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
        name: the name in the legend.
        value: its size.
        text: the value in readable form.
        style: the CSS class of its colour.
    """

    name: str
    value: float
    text: str
    style: str


class Rect(NamedTuple):
    """A rectangle with its upper left corner at `x` and `y`; `title` is shown on hover, as for all marks."""

    style: str
    x: float
    y: float
    width: float
    height: float
    rounding: float = 0
    title: str = ""


class Path(NamedTuple):
    """A line or an area; `steps` contains its path as SVG commands."""

    style: str
    steps: str
    title: str = ""


class Circle(NamedTuple):
    """A dot centred at `x` and `y`."""

    style: str
    x: float
    y: float
    radius: float
    title: str = ""


class Text(NamedTuple):
    """Text on its baseline; the style determines which end of the text is at `x`."""

    style: str
    x: float
    y: float
    text: str


class Group(NamedTuple):
    """Marks that share a title."""

    title: str
    marks: Sequence[Rect | Text]


Mark = Rect | Path | Circle | Text | Group


class LegendEntry(NamedTuple):
    """The meaning of a colour; `value` and `share` are empty if the axes of the plot show them."""

    style: str
    name: str
    value: str = ""
    share: str = ""


class Plot(NamedTuple):
    """A plot, in units of approximately one pixel.

    Attributes:
        width: the total width.
        height: the total height.
        marks: the marks, from the bottom layer to the top.
        legend: the legend below the plot.
    """

    width: float
    height: float
    marks: Sequence[Mark]
    legend: Sequence[LegendEntry] = ()


def stacked(
    series: Sequence[Series], frame: TimeFrame, unit: Callable[[float], str], width: int = _WIDTH, height: int = _HEIGHT
) -> Plot:
    """Return numbers over time as stacked columns, one per step."""
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
    marks: list[Mark] = [*_grid(top, unit, width, height), *_time_marks(frame, width, height)]
    for style, base, reached in layers:
        path = "".join(
            f"M{_LEFT + index * step:.1f} {_y(low, top, height):.1f}V{_y(high, top, height):.1f}"
            f"h{step - gap:.1f}V{_y(low, top, height):.1f}z"
            for index, (low, high) in enumerate(zip(base, reached, strict=True))
            if high > low
        )
        marks.append(Path(style, path))
    for index, lines_of in enumerate(titles):
        if lines_of:
            when = time_text(frame.start_ms + index * frame.step_ms)
            marks.append(_hover(_LEFT + index * step, step, height, "\n".join([when, *reversed(lines_of)])))
    return Plot(width, height, marks)


def lines(
    series: Sequence[Series], frame: TimeFrame, unit: Callable[[float], str], width: int = _WIDTH, height: int = _HEIGHT
) -> Plot:
    """Return numbers over time as lines that stay level until the next point."""
    top = _ceiling(max((value for each in series for _, value in each.points), default=0), unit)
    span = max(frame.end_ms - frame.start_ms, 1)

    def x(time_ms: int) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * min(max(time_ms - frame.start_ms, 0), span) / span

    marks: list[Mark] = [*_grid(top, unit, width, height), *_time_marks(frame, width, height)]
    for each in series:
        if not each.points:
            continue
        first_ms, first = each.points[0]
        path = [f"M{x(first_ms):.1f} {_y(first, top, height):.1f}"]
        path += [f"H{x(time_ms):.1f}V{_y(value, top, height):.1f}" for time_ms, value in each.points[1:]]
        path.append(f"H{width - _RIGHT}")
        title = f"{each.name}: {unit(each.points[-1][1])} at the end, at most {unit(max(v for _, v in each.points))}"
        marks.append(Path(f"line {each.style}", "".join(path), title))
        marks.append(Circle(each.style, width - _RIGHT, _y(each.points[-1][1], top, height), 3, title))
    return Plot(width, height, marks)


def bars(items: Sequence[Bar], name_width: int = 150, width: int = _WIDTH) -> Plot:
    """Return bars stacked vertically, each with its name and value."""
    top = max((max(item.value, item.outline) for item in items), default=0) or 1
    room = width - name_width - 104
    groups = []
    for number, item in enumerate(items):
        y = 24 * number + 4
        end = length = max(room * item.value / top, 1)
        marks: list[Rect | Text] = [
            Rect("ghost", 0, y - 2, width, 22),
            Text("name", name_width - 8, y + 13, _cut(item.name, name_width)),
        ]
        if item.outline > item.value:
            end = max(room * item.outline / top, 1)
            marks.append(Rect(f"{item.style} faint", name_width, y + 1, end, 16, 2))
        marks.append(Rect(item.style, name_width, y + 1, length, 16, 2))
        marks.append(Text("value", name_width + end + 6, y + 13, item.text))
        groups.append(Group(item.title, marks))
    return Plot(width, 24 * len(items) + 4, groups)


def columns(items: Sequence[Bar], unit: Callable[[float], str]) -> Plot:
    """Return columns side by side, with names below them if there is room."""
    top = _ceiling(max((item.value for item in items), default=0), unit)
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(items), 1)
    bar = min(max(width * 0.72, width - 3), 46) if width > 3 else width
    longest = max((len(item.name) for item in items), default=1)
    every = max(1, -(-(longest * 7 + 6) // max(int(width), 1)))
    groups = []
    for number, item in enumerate(items):
        x = _LEFT + number * width
        tall = _HEIGHT - _BOTTOM - _y(item.value, top, _HEIGHT)
        marks: list[Rect | Text] = [Rect("ghost", x, _TOP, width, _HEIGHT - _TOP - _BOTTOM)]
        if item.value:
            tall = max(tall, 1)
            left = x + (width - bar) / 2
            marks.append(Rect(item.style, left, _HEIGHT - _BOTTOM - tall, bar, tall, min(2, bar / 4)))
        if number % every == 0:
            marks.append(Text("tick mid", x + width / 2, _HEIGHT - 8, item.name))
        groups.append(Group(item.title, marks))
    return Plot(_WIDTH, _HEIGHT, [*_grid(top, unit, _WIDTH, _HEIGHT), *groups])


def lorenz(points: Sequence[tuple[float, float]], title: str) -> Plot:
    """Return a Lorenz curve: the share of records (upwards) held by each share of the keys, rarest first."""
    width, size = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(keys: float, records: float) -> str:
        return f"{_LEFT + keys * width:.1f} {_TOP + (1 - records) * size:.1f}"

    path = "L".join(place(*point) for point in [(0.0, 0.0), *points])
    marks: list[Mark] = [
        *_grid(1, percent_text, _WIDTH, _HEIGHT),
        Path("even", f"M{place(0, 0)}L{place(1, 1)}"),
        Path("c1 faint", f"M{path}L{place(1, 0)}z"),
        Path("line c1", f"M{path}", title),
    ]
    for part in (0, 0.25, 0.5, 0.75, 1):
        anchor = "mid" if 0 < part < 1 else "first" if part == 0 else "last"
        text = f"{percent_text(part)}{' of keys' if part == 1 else ''}"
        marks.append(Text(f"tick {anchor}", _LEFT + part * width, _HEIGHT - 8, text))
    return Plot(_WIDTH, _HEIGHT, marks)


def split(parts: Sequence[Part]) -> Plot:
    """Return a whole as a single bar that is divided into its parts, with a legend below."""
    total = sum(part.value for part in parts) or 1
    x, marks, legend = 0.0, [], []
    for part in parts:
        width = _SMALL * part.value / total
        share = percent_text(part.value / total)
        if part.value:
            title = f"{part.name}: {part.text}, {share}"
            marks.append(Rect(part.style, x, 0, max(width - 1.5, 0.5), 22, 2, title))
        x += width
        legend.append(LegendEntry(part.style, part.name, part.text, share))
    return Plot(_SMALL, 22, marks, legend)


def _y(value: float, top: float, height: int) -> float:
    return height - _BOTTOM - (height - _TOP - _BOTTOM) * value / top


def _grid(top: float, unit: Callable[[float], str], width: int, height: int) -> list[Mark]:
    marks: list[Mark] = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = _y(part * top, top, height)
        marks.append(Path("axis" if part == 0 else "grid", f"M{_LEFT} {y:.1f}H{width - _RIGHT}"))
        if part in (0, 0.5, 1):
            marks.append(Text("tick last", _LEFT - 6, y + 3.5, unit(part * top)))
    return marks


def _time_marks(frame: TimeFrame, width: int, height: int) -> list[Mark]:
    span = max(frame.end_ms - frame.start_ms, 1)
    step = next((each for each in _TIME_STEPS if span / each <= width / 75), _TIME_STEPS[-1])
    marks: list[Mark] = []
    time_ms = -(-frame.start_ms // step) * step
    while time_ms <= frame.end_ms:
        x = _LEFT + (width - _LEFT - _RIGHT) * (time_ms - frame.start_ms) / span
        if _LEFT + 12 < x < width - 24:
            marks.append(Path("axis", f"M{x:.1f} {height - _BOTTOM}v4"))
            marks.append(Text("tick mid", x, height - 8, day_text(time_ms, step)))
        time_ms += step
    return marks


def _hover(x: float, width: float, height: int, title: str) -> Rect:
    return Rect("ghost", x, _TOP, width, height - _TOP - _BOTTOM, title=title)


def _ceiling(value: float, unit: Callable[[float], str]) -> float:
    """Return a round number that is at least the value; for bytes, one that is round in KiB, MiB and so on."""
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
