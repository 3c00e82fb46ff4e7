"""SCRAM messages equal Apache Kafka's, only the right client gets in, and a hostile peer does no harm.

Method: run the conformance checks on Kafka's vectors; cut, change and replace each message; send random bytes from
hypothesis.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.conformance.misc_vectors import check_misc_vector
from kafkawire.sdk.errors import BrokerError, ConfigurationError, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MESSAGE_BYTES_MAX,
    SCRAM_MECHANISMS,
    ClientFirst,
    ProofSizeError,
    ScramClient,
    ScramCredential,
    ScramServer,
    credential_of,
    make_credential,
    salted_password,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.vectors import read_vectors

MECHANISM = "SCRAM-SHA-256"
CREDENTIAL = make_credential(MECHANISM, "pencil", b"salt of alice", ITERATIONS_MIN)
FIRST = b"n,,n=alice,r=client"
CHALLENGE = b"r=clientserver,s=c2FsdCBvZiBhbGljZQ==,i=4096"


def client(password: str = "pencil", user: str = "alice") -> ScramClient:
    return ScramClient(MECHANISM, user, password, "client")


def challenged(credential: ScramCredential = CREDENTIAL) -> ScramServer:
    server = ScramServer(MECHANISM, "server")
    server.receive_first(FIRST)
    assert server.first_message(credential) == CHALLENGE
    return server


def proven() -> tuple[ScramClient, bytes]:
    """Return a client that sent its proof, and the broker's response to the proof."""
    subject = client()
    return subject, challenged().receive_final(subject.receive_first(CHALLENGE))


def test_vectors() -> None:
    vectors = [vector for vector in read_vectors("misc") if vector["kind"] == "scram"]
    assert {vector["mechanism"] for vector in vectors} == set(SCRAM_MECHANISMS)
    assert [failure for vector in vectors if (failure := check_misc_vector(vector, ENGINE))] == []


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@given(user=st.text("a=,ü日", min_size=1), password=st.text(min_size=1, max_size=9))
def test_login(mechanism: str, user: str, password: str) -> None:
    credential = make_credential(mechanism, password, b"salt", 1)
    subject = ScramClient(mechanism, user, password, "c", {"tokenauth": "true"}, iterations_min=1)
    server = ScramServer(mechanism, "s")
    assert server.receive_first(subject.first_message()) == ClientFirst(user, {"tokenauth": "true"})
    subject.receive_final(server.receive_final(subject.receive_first(server.first_message(credential))))


def test_wrong_password() -> None:
    proof = client("pencils").receive_first(CHALLENGE)
    with pytest.raises(BrokerError, match="invalid user or password") as caught:
        challenged().receive_final(proof)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_acting_for_somebody_else() -> None:
    first = ScramServer(MECHANISM, "server").receive_first(b"n,a=b=2Cob,n=al=2Cice,r=client")
    assert first == ClientFirst("al,ice", {}, "b=2Cob")


def test_a_reserved_attribute_is_skipped() -> None:
    """Kafka's broker leaves it out of what the proof covers, too."""
    server = ScramServer(MECHANISM, "server")
    assert server.receive_first(b"n,,m=new," + FIRST[3:]).user == "alice"
    subject = client()
    subject.receive_final(server.receive_final(subject.receive_first(server.first_message(CREDENTIAL))))


def test_replayed_proof() -> None:
    """A recorded proof is valid only for its own challenge."""
    proof = client().receive_first(CHALLENGE)
    other = ScramServer(MECHANISM, "another")
    other.receive_first(FIRST)
    other.first_message(CREDENTIAL)
    with pytest.raises(RemoteProtocolError, match="another challenge"):
        other.receive_final(proof)


def test_proof_without_challenge() -> None:
    proof = client().receive_first(CHALLENGE)
    with pytest.raises(RemoteProtocolError, match="another challenge"):
        ScramServer(MECHANISM, "server").receive_final(proof)


def test_broker_that_does_not_know_the_password() -> None:
    impostor = challenged(CREDENTIAL._replace(server_key=bytes(32)))
    subject = client()
    final = impostor.receive_final(subject.receive_first(CHALLENGE))
    with pytest.raises(RemoteProtocolError, match="could not prove"):
        subject.receive_final(final)


def test_verdict_before_the_proof() -> None:
    _, final = proven()
    with pytest.raises(RemoteProtocolError, match="could not prove"):
        client().receive_final(final)


def test_refusal() -> None:
    subject = client()
    subject.receive_first(CHALLENGE)
    for reason, shown in ((b"invalid-proof", "invalid-proof"), (b"x" * 100, "x" * 100), (b"x" * 101, "x" * 100)):
        with pytest.raises(BrokerError, match=f"^SASL_AUTHENTICATION_FAILED: SCRAM: {shown}$"):
            subject.receive_final(b"e=" + reason)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=client,s=c2FsdA==,i=4096", "did not extend"),
        (b"r=clIentserver,s=c2FsdA==,i=4096", "did not extend"),
        (
            b"r=clientserver,s=c2FsdA==,i=4095",
            f"the broker asks for 4095 iterations, but {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed",
        ),
        (b"r=clientserver,s=c2FsdA==,i=100001", "the broker asks for 100001 iterations"),
        (b"r=clientserver,s=c2FsdA==,i=99999999999", "RFC 5802"),
        (b"r=clientserver,s=c2FsdA==,i=-1", "RFC 5802"),
        (b"r=clientserver,s=c2FsdA=,i=4096", "salt is not base64"),
        (b"r=clientserver,s=,i=4096", "RFC 5802"),
        (b"m=new,r=clientserver,s=c2FsdA==,i=4096", "RFC 5802"),
        (b"r=client\xff", "not UTF-8 at byte 8"),
        (b"r=" + b"x" * MESSAGE_BYTES_MAX, f"at most {MESSAGE_BYTES_MAX} are allowed"),
    ],
)
def test_bad_challenge(challenge: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        client().receive_first(challenge)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=,r=client",
        b"y,,n=alice,r=client",
        b"p=tls-unique,,n=alice,r=client",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=cli ent",
        b"n,,m=,n=alice,r=client",
        b"n,,n=alice,r=client,=x",
        b"n,a=,n=alice,r=client",
        b"n,,n=al=ice,r=client",
    ],
)
def test_bad_opening(first: bytes) -> None:
    with pytest.raises(
        RemoteProtocolError, match=f"the first message of the client of {len(first)} bytes does not follow RFC"
    ):
        ScramServer(MECHANISM, "server").receive_first(first)


@pytest.mark.parametrize("name", [b"al=ice", b"alice=", b"=3d", b"=2"])
def test_bad_user_name(name: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="does not follow RFC 5802"):
        ScramServer(MECHANISM, "server").receive_first(b"n,,n=" + name + b",r=client")


@pytest.mark.parametrize(("change", "reason"), [(b"c=biwsY,", "RFC 5802"), (b"d=biws,", "RFC 5802")])
def test_bad_channel_binding(change: bytes, reason: str) -> None:
    proof = client().receive_first(CHALLENGE)
    with pytest.raises(RemoteProtocolError, match=reason):
        challenged().receive_final(proof.replace(b"c=biws,", change))


def test_a_channel_binding_is_covered_by_the_proof() -> None:
    proof = client().receive_first(CHALLENGE)
    with pytest.raises(BrokerError, match="invalid user or password"):
        challenged().receive_final(proof.replace(b"c=biws,", b"c=eSws,"))


def test_an_extension_of_the_final_message_is_not_covered_by_the_proof() -> None:
    subject = client()
    proof = subject.receive_first(CHALLENGE)
    subject.receive_final(challenged().receive_final(proof.replace(b",p=", b",x=y,p=")))


def test_bad_proof() -> None:
    with pytest.raises(BrokerError, match="invalid user or password") as caught:
        challenged().receive_final(b"c=biws,r=clientserver,p=" + b"A" * 43 + b"=")
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("proof", [b"", b"AAAA", b"A" * 44, b"AAAA" * 1000])
def test_a_proof_of_another_size(proof: bytes) -> None:
    with pytest.raises(ProofSizeError, match=f"the proof has {len(proof) * 3 // 4} bytes, but 32 are expected"):
        challenged().receive_final(b"c=biws,r=clientserver,p=" + proof)


def test_a_proof_that_is_not_base64() -> None:
    with pytest.raises(RemoteProtocolError, match="does not follow RFC 5802"):
        challenged().receive_final(b"c=biws,r=clientserver,p=A")


def test_every_cut_is_refused() -> None:
    subject, final = proven()
    proof = client().receive_first(CHALLENGE)
    feeds: list[tuple[Callable[[bytes], object], bytes]] = [
        (challenged().receive_final, proof),
        (subject.receive_final, final),
    ]
    for receive, message in feeds:
        for end in range(len(message)):
            with pytest.raises(KafkaWireError):
                receive(message[:end])


@given(noise=st.binary(max_size=60) | st.text("n,=rsvecpi4096AB").map(str.encode), place=st.integers(0, 60))
def test_noise(noise: bytes, place: int) -> None:
    """Any message leads to a result or to an error from this package."""
    for receive, message in (
        (ScramServer(MECHANISM, "server").receive_first, FIRST),
        (challenged().receive_final, b"c=biws,r=clientserver,p=AAAA"),
        (client().receive_final, b"v=AAAA"),
        (client().receive_first, b"r=clientserver,s=c2FsdA==,i=1"),
    ):
        for data in (noise, message[:place] + noise + message[place:]):
            error = refusal(receive, data)
            assert error is None or isinstance(error, KafkaWireError)


def refusal(receive: Callable[[bytes], object], data: bytes) -> Exception | None:
    """Return the error that a message causes, whatever its class."""
    try:
        receive(data)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("SCRAM-MD5", "alice", "pencil", "x"), "sasl_mechanism='SCRAM-MD5'"),
        ((MECHANISM, "", "pencil", "x"), "user=''"),
        ((MECHANISM, "alice", "", "x"), "password=<hidden>"),
        ((MECHANISM, "alice", "pencil", ""), "nonce=''"),
        ((MECHANISM, "alice", "pencil", "a,b"), "nonce='a,b'"),
    ],
)
def test_bad_options(arguments: tuple[str, str, str, str], option: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        ScramClient(*arguments)


def test_bad_credential() -> None:
    with pytest.raises(ConfigurationError, match="password"):
        make_credential(MECHANISM, "", b"salt", ITERATIONS_MIN)


def test_a_credential_is_hidden() -> None:
    assert repr(CREDENTIAL) == str(CREDENTIAL) == "ScramCredential(<hidden>)"


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_the_credential_for_a_salted_password(mechanism: str) -> None:
    salted = salted_password(mechanism, "pencil", b"salt", 4096)
    assert credential_of(mechanism, salted, b"salt", 4096) == make_credential(mechanism, "pencil", b"salt", 4096)


def test_an_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = make_credential("SCRAM-SHA-256", "pencil", salt, 4096)
    assert base64.b64encode(credential.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(credential.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
