"""The network in virtual time delivers bytes in order, and can be cut, or break in the middle of a frame.

Method: use two ends that record the frames they receive.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.network import Network, SimulatedWire
from kafkawire.reference_broker.simulation.scheduler import Clock, Host, Scheduler
from kafkawire.sdk.protocol.frames import frame as framed
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.wire import Address, FrameReceiver, Wire

THERE = Address("b", 9092)


class End:
    """One end of a connection."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.frames: list[bytes] = []
        self.losses = 0

    def receive_frame(self, frame: Buffer) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        self.losses += 1


class Bench:
    """Two hosts with a connection from the first to the second."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler.chance("network"))
        self.hosts = [
            Host(self.scheduler, name, Clock(self.scheduler), self.scheduler.chance(name)) for name in ("a", "b")
        ]
        self.ends: list[End] = []
        self.failures: list[OSError] = []

    def end(self, wire: Wire) -> FrameReceiver:
        self.ends.append(End(wire))
        return self.ends[-1]

    def connect(self) -> tuple[End, End]:
        """Open a connection; return its near and far ends."""
        self.network.listen(THERE, self.hosts[1], self.end)
        self.network.connect(self.hosts[0], THERE, self.end, self.failures.append)
        self.run()
        far, near = self.ends
        return near, far

    def run(self, milliseconds: int = 2_000) -> None:
        self.scheduler.run_to(self.scheduler.now_us + milliseconds * 1_000)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_frames_arrive_whole_and_in_order() -> None:
    bench = Bench()
    near, far = bench.connect()
    for content in numbered(20):
        near.wire.write([framed(content)[:3], framed(content)[3:]])
    far.wire.write([framed(b"answer")])
    bench.run()
    assert far.frames == numbered(20)
    assert near.frames == [b"answer"]


def test_nobody_listens_there() -> None:
    bench = Bench()
    bench.network.connect(bench.hosts[0], THERE, bench.end, bench.failures.append)
    bench.run()
    assert [str(error) for error in bench.failures] == ["nothing listens at b:9092"]


def test_what_is_written_before_the_end_arrives_before_it() -> None:
    bench = Bench()
    near, far = bench.connect()
    near.wire.write([framed(b"last")])
    near.wire.close()
    bench.run()
    assert (far.frames, far.losses, near.losses) == ([b"last"], 1, 1)
    assert not near.wire.is_open
    assert not far.wire.is_open


def test_a_cut_holds_one_direction_until_it_is_healed() -> None:
    bench = Bench()
    near, far = bench.connect()
    bench.network.cut([("a", "b")])
    near.wire.write([framed(b"there")])
    far.wire.write([framed(b"back")])
    bench.run()
    assert (far.frames, near.frames) == ([], [b"back"])
    bench.network.heal()
    bench.run()
    assert far.frames == [b"there"]


def test_a_connection_breaks_in_the_middle_of_a_frame() -> None:
    counts = set()
    for seed in range(30):
        bench = Bench(seed)
        near, far = bench.connect()
        for content in numbered(5):
            near.wire.write([framed(content * 50)])
        assert isinstance(near.wire, SimulatedWire)
        near.wire.break_off(bench.scheduler.chance("break"))
        bench.run()
        assert far.frames == [content * 50 for content in numbered(5)][: len(far.frames)]
        assert (far.losses, near.losses) == (1, 1)
        counts.add(len(far.frames))
    assert len(counts) > 2, "breaks leave different parts"


def test_a_host_without_power_is_missed_only_later() -> None:
    for is_silent in (False, True):
        bench = Bench()
        _, far = bench.connect()
        bench.hosts[0].end()
        bench.network.vanish(bench.hosts[0], is_silent=is_silent)
        bench.run(45)
        assert far.losses == (0 if is_silent else 1)
        bench.run()
        assert far.losses == 1


def test_what_waited_for_a_cut_is_sent_again_sooner_or_later() -> None:
    counts = set()
    for seed in range(30):
        bench = Bench(seed)
        near, far = bench.connect()
        bench.network.cut([("a", "b")])
        near.wire.write([framed(b"there")])
        bench.run()
        bench.network.heal()
        bench.run(15)
        counts.add(len(far.frames))
        near.wire.write([framed(b"more")])
        bench.run()
        assert far.frames == [b"there", b"more"]
    assert counts == {0, 1}
