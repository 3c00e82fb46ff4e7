"""What AlterUserScramCredentials may change: which users are refused and why, and the changes to the others.

Apache Kafka 4.3 considers a user altered twice if the request names the user twice; 3.9 compares mechanisms, too.

Source: `ScramControlManager` in Apache Kafka 4.3; `ZkAdminManager.alterUserScramCredentials` in 3.9; KIP-554.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkawire.reference_broker.metadata.config_store import Revise, revision_of
from kafkawire.reference_broker.security.scram_credentials import MECHANISMS, credential_text
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kafkawire.sdk.protocol.scram import credential_of
from kafkawire.sdk.protocol.tables.enums import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Results", "plan_alterations", "plan_alterations_in_registry"]

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

_Alteration = Deletion | Upsertion

#: The change to each user's configurations, or the reason for which there is none.
Results = Mapping[str, Revise | BrokerError]

_TWICE: Final = "A user credential cannot be altered twice in the same request"

#: Kafka's text for an error that it does not expect.
_UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."

#: Returns the configurations of a user.
_ConfigsOf = Callable[[str], Mapping[str, str]]


def plan_alterations(deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], configs_of: _ConfigsOf) -> Results:
    """Check alterations as Apache Kafka 4.3 does.

    Args:
        deletions: credentials to delete.
        upsertions: credentials to set.
        configs_of: returns the configurations of a user.
    """
    asked: tuple[_Alteration, ...] = (*deletions, *upsertions)
    accepted: dict[str, _Alteration] = {}
    refused: dict[str, BrokerError] = {}
    for each in asked:
        name = each.name
        if name in refused:
            continue
        if accepted.pop(name, None) is not None:
            refused[name] = BrokerError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        try:
            _check(each)
            if isinstance(each, Deletion):
                _check_present(each, configs_of)
            accepted[name] = each
        except BrokerError as error:
            refused[name] = error
    without = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
    made = {name: _revision([each]) if _have_passwords([each]) else without for name, each in accepted.items()}
    return {**made, **refused}


def plan_alterations_in_registry(
    deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], configs_of: _ConfigsOf
) -> Results:
    """Check alterations as Apache Kafka 3.9 does with ZooKeeper; see `plan_alterations`.

    A password without bytes lets all users fail whose alterations have passed the other checks.
    """
    asked: tuple[_Alteration, ...] = (*deletions, *upsertions)
    results: dict[str, Revise | BrokerError] = {}
    for each in asked:
        try:
            _check(each)
        except BrokerError as error:
            results[each.name] = error
    of_users: dict[str, list[_Alteration]] = {}
    for each in asked:
        if each.name not in results:
            of_users.setdefault(each.name, []).append(each)
    accepted: dict[str, list[_Alteration]] = {}
    for name, several in of_users.items():
        try:
            if max(Counter(each.mechanism for each in several).values()) > 1:
                raise BrokerError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            for each in several:
                if isinstance(each, Deletion):
                    _check_present(each, configs_of)
            accepted[name] = several
        except BrokerError as error:
            results[name] = error
    if all(map(_have_passwords, accepted.values())):
        return {**results, **{name: _revision(several) for name, several in accepted.items()}}
    return {**results, **dict.fromkeys(accepted, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED))}


def _check(alteration: _Alteration) -> None:
    if not alteration.name:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if alteration.mechanism not in MECHANISMS:
        raise BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(alteration, Upsertion):
        if alteration.iterations < SCRAM_ITERATIONS_MIN:
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if alteration.iterations > SCRAM_ITERATIONS_MAX:
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _check_present(deletion: Deletion, configs_of: _ConfigsOf) -> None:
    if MECHANISMS[deletion.mechanism] not in configs_of(deletion.name):
        text = "Attempt to delete a user credential that does not exist"
        raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, text)


def _have_passwords(alterations: Sequence[_Alteration]) -> bool:
    """Return whether no password is empty: Java does not allow empty keys, so Kafka would fail."""
    return all(isinstance(each, Deletion) or each.salted_password for each in alterations)


def _revision(alterations: Sequence[_Alteration]) -> Revise:
    changes: dict[str, str | None] = {}
    for each in alterations:
        mechanism = MECHANISMS[each.mechanism]
        if isinstance(each, Deletion):
            changes[mechanism] = None
        else:
            salted, salt = bytes(each.salted_password), bytes(each.salt)
            changes[mechanism] = credential_text(credential_of(mechanism, salted, salt, each.iterations))
    return revision_of(changes)
