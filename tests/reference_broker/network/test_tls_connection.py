"""A TLS connection opens after its handshake or says why not, and leaves nothing behind when it ends.

Method: use a socket pair, a TLS client that the test drives, and a stand-in for the session.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

import pytest

from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from tests.certificates import Certificates
from tests.reference_broker.network.tls_bench import TlsBench
from tests.reference_broker.network.wire_bench import on_a_loop


@pytest.fixture
def server(certificates: Certificates) -> ssl.SSLContext:
    return certificates.context(certificates.broker)


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext:
    return tls_context(PemFiles(str(certificates.authority)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_and_responses(server: ssl.SSLContext, trusting: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    trusting.maximum_version = version

    async def test() -> None:
        bench = TlsBench(server, trusting)
        wire = await bench.open()
        assert bench.certificates == [None]
        assert len(bench.handshakes) == 0
        await bench.client.send(frame(b"one") + frame(b"two"))
        await bench.until(lambda: len(bench.session.frames) == 2)
        assert [bytes(each) for each in bench.session.frames] == [b"one", b"two"]
        wire.write([b"answer"])
        assert await bench.client.read(6) == b"answer"
        assert wire.progress[0] == 14
        bench.end()

    on_a_loop(test())


def test_requests_that_come_with_the_end_of_the_handshake(
    server: ssl.SSLContext, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        client = bench.client
        finished: list[bool] = []
        flush = client._flush

        async def hold() -> None:
            if not finished:
                await flush()

        monkeypatch.setattr(client, "_flush", hold)

        def step() -> None:
            client.tls.do_handshake()
            finished.append(True)

        await client.do(step)
        client.tls.write(frame(b"early"))
        await flush()
        await bench.until(lambda: bench.session.frames)
        assert bytes(bench.session.frames[0]) == b"early"
        bench.end()

    on_a_loop(test())


def test_certificate_of_the_client(certificates: Certificates) -> None:
    server = certificates.context(certificates.broker, wants_client=True)
    showing = tls_context(PemFiles(str(certificates.authority), str(certificates.client)))

    async def test() -> None:
        bench = TlsBench(server, showing)
        await bench.open()
        (certificate,) = bench.certificates
        assert certificate == ssl.PEM_cert_to_DER_cert(certificates.client_certificate.read_text())
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_has_the_same_certificate(certificates: Certificates, version: ssl.TLSVersion) -> None:
    server = certificates.context(certificates.broker, wants_client=True)
    showing = tls_context(PemFiles(str(certificates.authority), str(certificates.client)))
    showing.maximum_version = version

    async def test() -> None:
        first = TlsBench(server, showing)
        (await first.open()).write([b"x"])
        assert await first.client.read(1) == b"x", "TLS 1.3 sends the ticket with the first data"
        second = TlsBench(server, showing)
        second.client.tls.session = first.client.tls.session
        await second.open()
        assert second.client.tls.session_reused
        assert second.certificates == first.certificates
        assert first.certificates[0] is not None
        first.end()
        second.end()

    on_a_loop(test())


def test_too_many_bytes_before_the_handshake_is_complete(
    server: ssl.SSLContext, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        monkeypatch.setattr(bench.handshakes, "continue_with", lambda handshake: None)
        await bench.accept()
        sending = asyncio.ensure_future(bench.send(b"\x16" * 500_000))
        await bench.until(lambda: bench.refused)
        assert bench.refused == ["more than 262144 bytes before its TLS handshake was complete"]
        sending.cancel()
        await bench.until(lambda: bench.was_gone)
        bench.end()

    on_a_loop(test())


def test_client_without_a_certificate_is_refused(certificates: Certificates, trusting: ssl.SSLContext) -> None:
    server = certificates.context(certificates.broker, wants_client=True)

    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
            await bench.client.read(1)
        assert bench.refused == ["peer did not return a certificate"]
        await bench.until(lambda: bench.was_gone)
        bench.end()

    on_a_loop(test())


def test_client_with_a_foreign_certificate_is_refused(certificates: Certificates) -> None:
    server = certificates.context(certificates.broker, wants_client=True)
    stranger = tls_context(PemFiles(str(certificates.authority), str(certificates.stranger)))

    async def test() -> None:
        bench = TlsBench(server, stranger)
        await bench.accept()
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown.ca"):
            await bench.client.read(1)
        assert "its certificate is not accepted: unable to get local issuer certificate" in bench.refused
        bench.end()

    on_a_loop(test())


def test_client_that_no_rule_names_is_refused(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        bench.refuses = "no rule"
        await bench.accept()
        with suppress(ssl.SSLEOFError):  # Python 3.11.2 does not raise it
            assert await bench.client.read(1) == b""
        assert bench.refused == ["no rule"]
        await bench.until(lambda: bench.was_gone)
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x20\x00\x12", b"GET / HTTP/1.1\r\n\r\n"])
def test_client_without_tls(server: ssl.SSLContext, trusting: ssl.SSLContext, data: bytes) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        await bench.send(data)
        await bench.until(lambda: bench.was_gone)
        assert bench.refused == ["the client does not use TLS; does it have another security.protocol?"]
        assert not bench.certificates
        bench.end()

    on_a_loop(test())


def test_nonsense_that_looks_like_tls(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        await bench.send(b"\x16\x03\x01\x00\x05hello")
        await bench.until(lambda: bench.was_gone)
        assert bench.refused
        bench.end()

    on_a_loop(test())


def test_old_versions_are_refused(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2

    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            await bench.client.do(bench.client.tls.do_handshake)
        assert bench.refused == ["unsupported protocol"]
        bench.end()

    on_a_loop(test())


def test_client_that_leaves_during_the_handshake(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.accept()
        assert len(bench.handshakes) == 1
        bench.far.close()
        await bench.until(lambda: bench.was_gone)
        assert len(bench.handshakes) == 0
        assert not bench.refused
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("says_so", [False, True])
def test_client_that_leaves(server: ssl.SSLContext, trusting: ssl.SSLContext, says_so: bool) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.open()
        await bench.client.send(frame(b"last"))
        if says_so:
            with pytest.raises(ssl.SSLWantReadError):
                bench.client.tls.unwrap()
            await bench.client._flush()
        else:
            bench.far.close()
        await bench.until(lambda: bench.gone)
        assert bytes(bench.session.frames[0]) == b"last"
        assert bench.session.is_lost
        assert not bench.was_gone
        bench.end()

    on_a_loop(test())


def test_damaged_record_ends_the_connection(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async def test() -> None:
        bench = TlsBench(server, trusting)
        await bench.open()
        bench.client.tls.write(b"x" * 100)
        data = bytearray(bench.client._to_send.read())
        data[50] ^= 1
        await bench.send(bytes(data))
        await bench.until(lambda: bench.gone)
        assert bench.refused in (["DECRYPTION_FAILED_OR_BAD_RECORD_MAC"], ["RECORD_LAYER_FAILURE"])  # OpenSSL 3.0, 3.5
        assert not bench.session.frames
        bench.end()

    on_a_loop(test())
