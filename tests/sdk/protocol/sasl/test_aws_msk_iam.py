"""AWS_MSK_IAM signs as AWS does.

Method: compare with the signing key in Amazon's documentation ("Examples of how to derive a signing key"), and with
signatures that botocore 1.44 (`SigV4QueryAuth`) made from the same credentials, host and time.
"""

from __future__ import annotations

import json

import pytest

from kafkawire.sdk.errors import ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.sasl.aws_msk_iam import AwsCredentials, AwsMskIamAuthenticator, region_of, signing_key
from kafkawire.sdk.secret import Secret

KEY = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
HOST = "b-1.demo.abcde.c2.kafka.eu-west-1.amazonaws.com"

#: 2026-11-22 04:30:05.999 UTC.
NOW_MS = 1_795_321_805_999


def login(token: str | None = None) -> AwsMskIamAuthenticator:
    credentials = AwsCredentials("AKIDEXAMPLE", KEY, Secret(token) if token else None)
    return AwsMskIamAuthenticator(HOST, "eu-west-1", credentials, NOW_MS, "kafkawire/test")


def test_the_documented_signing_key() -> None:
    expected = "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"
    assert signing_key(KEY, "20120215", "us-east-1", "iam").hex() == expected


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        (None, "12f6833265109227bdbe8e4e3574fc39a1580de9b1c6ad425e9a7adb79e4a347"),
        ("session/token+=", "678f90a1bbdc1a2e302e15319d7225b5ce8404dca25f5b3c7319aa01043ae5eb"),
    ],
)
def test_a_statement(token: str | None, signature: str) -> None:
    statement = json.loads(login(token).first_message())
    assert statement == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "kafkawire/test",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIDEXAMPLE/20261122/eu-west-1/kafka-cluster/aws4_request",
        "x-amz-date": "20261122T043005Z",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-signature": signature,
        **({"x-amz-security-token": token} if token else {}),
    }
    assert KEY.reveal() not in login(token).first_message().decode()


def test_the_last_word() -> None:
    login().respond(b'{"version":"2020_10_22","request-id":"b19f2d3c"}')


@pytest.mark.parametrize("word", [b"", b"{}", b'{"version":"2030_01_01"}', b"[]", b"\xff", b"[" * 100_000])
def test_a_last_word_that_is_none(word: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="does not contain version 2020_10_22"):
        login().respond(word)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-xyz.c3.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-2.demo.abcde.c4.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_the_region_in_a_name(host: str, region: str) -> None:
    assert region_of(host) == region


@pytest.mark.parametrize("host", ["localhost", "kafka.eu-west-1.amazonaws.com.example.org", "10.0.0.1"])
def test_a_name_without_a_region(host: str) -> None:
    with pytest.raises(ConfigurationError, match="sasl_aws_region=None: required, because the host name"):
        region_of(host)
