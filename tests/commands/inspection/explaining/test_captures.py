"""A capture is shown as requests and their matching responses, and anything unmatched is reported.

Method: explain handwritten conversations packet by packet, then with packets repeated, reordered or lost, cut at both
ends, or mixed with other protocols; explain damaged captures; check the command's output and status.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from kafkawire.commands.inspection.explaining import captures
from kafkawire.commands.inspection.explaining.captures import Frame, Summary, explain_capture
from kafkawire.protocol import APIS, ApiKey, Received, Request, frame, message_class
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.captures import Talk, pcap, pcapng
from tests.codegen_command import run


def explained(packets: Sequence[bytes]) -> tuple[list[Frame], Summary]:
    summary = Summary()
    return list(explain_capture(io.BytesIO(pcap(packets)), summary)), summary


def read(frames: list[Frame]) -> list[str]:
    """Return the frames in short form: direction, API and correlation id."""
    found = []
    for each in frames:
        if isinstance(each.read, Request | Received):
            found.append(f"{each.way} {each.read.api.name} {each.read.correlation_id}")
        elif each.read is not None:
            found.append(f"{each.way} not read")
    return found


def remarks(frames: list[Frame]) -> list[str]:
    return [each.text for each in frames if each.way == "!"][1:]


def talk(rounds: int = 4, opened: bool = True, piece_bytes: int = 1400) -> Talk:
    written = Talk(opened)
    for number in range(rounds):
        written.exchange(HeartbeatRequest("group", number), HeartbeatResponse(number), 4, piece_bytes)
    return written


def both(numbers: Sequence[int]) -> list[str]:
    return [f"{way} Heartbeat {number}" for number in numbers for way in "><"]


@pytest.mark.parametrize("piece_bytes", [1, 7, 1400])
def test_requests_and_responses(piece_bytes: int) -> None:
    written = talk(piece_bytes=piece_bytes)
    written.end()
    frames, summary = explained(written.packets)
    assert read(frames) == both(range(4))
    assert remarks(frames) == []
    assert frames[0].text == "10.0.0.1:50000 and 10.0.0.2:9092"
    assert list(summary.lines()) == ["1 connection, 4 requests, 4 responses"]


def test_every_api() -> None:
    """Responses are read in the right version, including those to ApiVersions."""
    written = Talk()
    for api in APIS.values():
        if api.key != ApiKey.PRODUCE:
            asked, answer = message_class(f"{api.name}Request")(), message_class(f"{api.name}Response")()
            written.exchange(asked, answer, api.versions.last)
    frames, summary = explained(written.packets)
    assert (summary.requests, summary.responses, summary.unread) == (len(APIS) - 1, len(APIS) - 1, 0)
    assert remarks(frames) == []


def test_frames_of_many_packets() -> None:
    written = Talk()
    topics = [FetchResponse.FetchableTopicResponse("t" * 200)] * 2_000
    written.exchange(FetchRequest(), FetchResponse(responses=topics), 11)
    frames, _ = explained(written.packets)
    assert read(frames) == ["> Fetch 0", "< Fetch 0"]


@pytest.mark.parametrize("seed", range(10))
def test_repeated_and_reordered(seed: int) -> None:
    chance = random.Random(seed)
    packets = talk(10, piece_bytes=9).packets
    keyed = [(number + chance.uniform(0, 6) * (number > 1), packet) for number, packet in enumerate(packets)]
    keyed += [(number + chance.uniform(0, 20), packet) for number, packet in keyed if chance.random() < 0.3]
    frames, summary = explained([packet for _, packet in sorted(keyed)])
    assert read(frames) == both(range(10))
    assert summary.missing_bytes == 0


def test_a_gap() -> None:
    packets = talk(10, piece_bytes=9).packets
    per_round = (len(packets) - 2) // 10
    missing = 2 + 3 * per_round  # the first packet of the fourth request
    frames, summary = explained(packets[:missing] + packets[missing + 1 :])
    assert summary.missing_bytes == 9
    assert read(frames)[-4:] == both([8, 9])
    assert set(both(range(10))) >= {each for each in read(frames) if "not" not in each}
    assert any("bytes from the client were not captured" in text for text in remarks(frames))
    assert any("skipped" in line for line in summary.lines())


def test_what_is_left_of_a_frame_around_a_gap_is_passed_over() -> None:
    packets = talk(10, piece_bytes=9).packets
    first = 2 + 3 * ((len(packets) - 2) // 10)
    passed_over = [explained(packets[:at] + packets[at + 1 :])[1].passed_over_bytes for at in (first, first + 1)]
    assert passed_over[0] == passed_over[1] > 9, "must not depend on which packet of the request is missing"


@pytest.mark.parametrize("begin", range(2, 12))
def test_a_beginning_inside_a_connection(begin: int) -> None:
    """Bytes before the first known request are skipped, and a response without its request is reported as such."""
    frames, summary = explained(talk(10, piece_bytes=14).packets[begin:])
    assert read(frames)[-8:] == both(range(6, 10))
    assert summary.responses <= summary.requests
    assert summary.connections == 1
    is_at_a_request = (begin - 2) % 5 == 0
    assert any("skipped" in text for text in remarks(frames)) is not is_at_a_request
    assert (summary.passed_over_bytes == 0) is is_at_a_request
    told = [after for before, after in pairwise(frames) if "skipped" in before.text]
    assert all(after.read is not None for after in told), "a known frame must follow the skipped bytes"


@pytest.mark.parametrize("begin", range(2, 30))
def test_a_beginning_with_any_response(begin: int) -> None:
    """A correlation id from 3 to 13 stands where a Produce request would have its version."""
    frames, _ = explained(talk(20).packets[begin:])
    assert read(frames)[-10:] == both(range(15, 20))


def test_a_beginning_with_no_known_response() -> None:
    written = Talk(opened=False)
    first = written.request(HeartbeatRequest("a"), 4)
    written.packets.clear()
    written.exchange(HeartbeatRequest("b"), HeartbeatResponse(), 4)
    request, answer = written.packets
    early = Talk(opened=False, first=(1000 + len(first), 2**32 - 50 - 16))
    early.data(1, frame(b"\0\0\0\0" + bytes(8)))
    frames, _ = explained([request, early.packets[0], answer])
    assert read(frames)[0] == "> Heartbeat 1"


def test_pipelined_requests_and_one_without_response() -> None:
    written = Talk()
    written.request(HeartbeatRequest("g"), 4)
    written.request(ProduceRequest(acks=0), 9)
    written.request(HeartbeatRequest("g"), 4)
    written.end()
    frames, summary = explained(written.packets)
    assert read(frames) == ["> Heartbeat 0", "> Produce 1", "> Heartbeat 2"]
    assert remarks(frames) == ["2 requests without a response"]
    assert "2 requests whose response is not in the capture" in summary.lines()
    summary.without_response = summary.missing_bytes = 1
    assert [line for line in summary.lines() if line.startswith("1 ")][-2:] == [
        "1 request whose response is not in the capture",
        "1 byte not captured",
    ]


def test_a_request_whose_response_was_not_captured_beside_one_that_waits() -> None:
    written = Talk()
    written.exchange(HeartbeatRequest("g"), HeartbeatResponse(), 4)
    written.packets.pop()
    written.exchange(HeartbeatRequest("g"), HeartbeatResponse(), 4)
    written.request(HeartbeatRequest("g"), 4)
    frames, summary = explained(written.packets)
    assert read(frames) == ["> Heartbeat 0", *both([1]), "> Heartbeat 2"]
    assert remarks(frames)[-1] == "2 requests without a response"
    assert summary.without_response == 2


def test_tokens_of_sasl_do_not_show() -> None:
    written = Talk()
    written.exchange(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse(), 0)
    written.data(0, frame(b"\0alice\0secret"))
    written.data(1, frame(b""))
    written.exchange(HeartbeatRequest(), HeartbeatResponse(), 4)
    frames, _ = explained(written.packets)
    assert [each.text for each in frames[3:5]] == [
        "<SASL token of the client, 13 bytes>", "<SASL token of the broker, 0 bytes>"
    ]  # fmt: skip
    assert read(frames)[-2:] == both([1])


def test_several_connections_at_once() -> None:
    talks = [Talk(client=("fe80::1", port), broker=("fe80::2", 9092)) for port in range(50_000, 50_020)]
    for each in talks:
        each.exchange(HeartbeatRequest(), HeartbeatResponse(), 4)
    packets = [each.packets[index] for index in range(4) for each in talks]
    frames, summary = explained(packets)
    assert list(summary.lines()) == ["20 connections, 20 requests, 20 responses"]
    assert {each.connection for each in frames} == set(range(1, 21))
    assert frames[0].text == "[fe80::1]:50000 and [fe80::2]:9092"


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("begins", [b"\x16\3\1\2\0", b"GET / HTTP/1.1", bytes(64), b"\0\1"])
def test_other_protocols(opened: bool, begins: bytes) -> None:
    written = Talk(opened)
    for number in range(5):
        written.data(0, begins + bytes([number]) * 100)
        written.data(1, begins[::-1] + bytes([number]) * 100)
    frames, summary = explained(written.packets)
    assert (summary.requests, summary.responses) == (0, 0)
    assert remarks(frames)[-1] == "no unencrypted Kafka traffic was found in this connection"


def test_unfinished_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "_UNFINISHED_BYTES_MAX", 10_000)
    talks = [Talk(client=("10.0.0.1", port)) for port in range(50_000, 50_020)]
    for each in talks:
        each.data(0, b"\0\1\0\0" + bytes(1_000))
        each.data(0, bytes(1_000))
    frames, _ = explained([packet for each in talks for packet in each.packets])
    dropped = [text for text in remarks(frames) if "incomplete frames were dropped" in text]
    assert len(dropped) > 5


def test_noise() -> None:
    """Whatever a capture contains, reading it comes to an end, and each frame is counted correctly."""
    chance = random.Random(11)
    sound = [pcap(talk(6, piece_bytes=20).packets), pcapng(talk(6).packets, link_type=113)]
    for _ in range(300):
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randrange(1, 20)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        summary = Summary()
        frames = list(explain_capture(io.BytesIO(bytes(data[: chance.randrange(1, len(data))])), summary))
        count = sum(frame.read is not None for frame in frames)
        assert summary.requests + summary.responses + summary.unread == count


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "kafka.pcapng"
    written = talk(1)
    written.exchange(ApiVersionsRequest("a", "1"), ApiVersionsResponse(35), 0)
    path.write_bytes(pcapng(written.packets))
    lines = run("explain", "--pcap", path).splitlines()
    assert lines[0].split(maxsplit=3)[1:] == ["1", "!", "10.0.0.1:50000 and 10.0.0.2:9092"]
    assert lines[1].split(maxsplit=4)[2:] == [
        "1", ">", "<Heartbeat request, version 4, correlation id 0, client 'c': HeartbeatRequest(group_id='group')>"
    ]  # fmt: skip
    assert lines[-1] == "1 connection, 2 requests, 2 responses"
    assert run("explain", "--pcap", path, "--frame", 1).startswith("Heartbeat request, version 4\nOFFSET")
    assert run("explain", "--pcap", path, "--frame", 4).startswith("ApiVersions response, version 0\n")
    assert "has no frame 5; its frames are numbered from 1 to 4" in run("explain", "--pcap", path, "--frame", 5, code=1)


def test_the_command_on_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "kafka.pcap"
    path.write_bytes(pcap(talk(2).packets)[:-5])
    output = run("explain", "--pcap", path, code=1)
    assert output.splitlines()[-1].startswith("error: the capture is truncated")
    assert "2 requests" in output
    path.write_bytes(b"no capture")
    assert "error: this is not a capture: it begins with 6e 6f 20 63" in run("explain", "--pcap", path, code=1)
    path.write_bytes(pcap([b"\x99" * 30], link_type=101))
    output = run("explain", "--pcap", path, code=1)
    assert "1 packet left out: not IP" in output
    assert "no Kafka traffic was found" in output
    assert "No such file" in run("explain", "--pcap", tmp_path / "nowhere", code=1)
