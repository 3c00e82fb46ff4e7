"""The SCRAM credentials of users: list and change them.

Source: KIP-554; `KafkaAdminClient` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.scram_values import (
    ScramAlteration,
    ScramCredentialInfo,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
    mechanism_name,
)
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.scram import salted_password
from kafkawire.sdk.protocol.tables.enums import ScramMechanism
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER
from kafkawire.sdk.routing.requests import check, error_text, lacking
from kafkawire.sdk.transport.threads import in_thread
from kafkawire.sdk.transport.timing import random_text

__all__ = ["alter_user_scram_credentials", "describe_user_scram_credentials"]


async def describe_user_scram_credentials(
    operations: Operations, users: Sequence[str] | None
) -> ItemResults[str, UserScramCredentialsDescription]:
    """Return the credentials of users; see `Admin.describe_user_scram_credentials`."""
    kind = messages.DescribeUserScramCredentialsRequest

    def read(response: messages.DescribeUserScramCredentialsResponse) -> None:
        check(response.error_code, error_text("SCRAM credentials", response.error_message))
        named = {result.user for result in response.results}
        for user in users or ():
            if user not in named:
                raise lacking(response, f"user {user}")

    response = await operations.request(
        ANY_BROKER,
        # As Java's client does; if this user may not see them, Apache Kafka does not answer a request with null.
        versioned(kind([kind.UserName(user) for user in users or ()])),
        messages.DescribeUserScramCredentialsResponse,
        read,
    )
    values: dict[str, UserScramCredentialsDescription] = {}
    errors: dict[str, KafkaWireError] = {}
    for result in response.results:
        if result.error_code == ErrorCode.NONE:
            infos = (
                ScramCredentialInfo(_mechanism(each.mechanism), each.iterations) for each in result.credential_infos
            )
            values[result.user] = UserScramCredentialsDescription(result.user, tuple(infos))
        else:
            text = error_text(f"SCRAM credentials of {result.user}", result.error_message)
            errors[result.user] = BrokerError(result.error_code, text)
    return ItemResults(values, errors)


async def alter_user_scram_credentials(
    operations: Operations, alterations: Sequence[ScramAlteration]
) -> ItemResults[str, None]:
    """Change the credentials of users; see `Admin.alter_user_scram_credentials`."""
    kind = messages.AlterUserScramCredentialsRequest
    # One after the other, so that a call keeps only one thread busy, and none for long after it was cancelled.
    upsertions = [
        await in_thread(partial(_upsertion, each))
        for each in alterations
        if isinstance(each, UserScramCredentialUpsertion)
    ]
    request = kind(
        [
            kind.ScramCredentialDeletion(each.user, each.mechanism)
            for each in alterations
            if not isinstance(each, UserScramCredentialUpsertion)
        ],
        upsertions,
    )

    def read(response: messages.AlterUserScramCredentialsResponse) -> None:
        named = set()
        for result in response.results:
            named.add(result.user)
            if result.error_code == ErrorCode.NOT_CONTROLLER:
                text = error_text(f"SCRAM credentials of {result.user}", result.error_message)
                raise BrokerError(result.error_code, text)
        for each in alterations:
            if each.user not in named:
                raise lacking(response, f"user {each.user}")

    response = await operations.request(
        CONTROLLER, versioned(request), messages.AlterUserScramCredentialsResponse, read
    )
    found = {result.user: (result.error_code, result.error_message) for result in response.results}
    values: dict[str, None] = {}
    errors: dict[str, KafkaWireError] = {}
    for user in dict.fromkeys(each.user for each in alterations):
        code, message = found[user]
        if code == ErrorCode.NONE:
            values[user] = None
        else:
            errors[user] = BrokerError(code, error_text(f"SCRAM credentials of {user}", message))
    return ItemResults(values, errors)


def _upsertion(
    alteration: UserScramCredentialUpsertion,
) -> messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    """Hash a password, which takes milliseconds."""
    password = alteration.password.reveal()
    salt = random_text().encode() if alteration.salt is None else alteration.salt
    return messages.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        alteration.user,
        alteration.mechanism,
        alteration.iterations,
        salt,
        salted_password(mechanism_name(alteration.mechanism), password, salt, alteration.iterations),
    )


def _mechanism(number: int) -> ScramMechanism | int:
    try:
        return ScramMechanism(number)
    except ValueError:
        return number
