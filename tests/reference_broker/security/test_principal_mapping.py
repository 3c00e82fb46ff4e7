"""Names in certificates become principals by Kafka's rules, in their order.

Method: check the cases of Apache Kafka's `SslPrincipalMapperTest`, and replacements with Java's `replaceAll` results.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.principal_mapping import NoRule, PrincipalMapping
from kafkawire.sdk.errors import ConfigurationError

RULES = ",".join(
    (
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_rules(name: str, expected: str) -> None:
    assert PrincipalMapping(RULES).name_of(name) == expected


@pytest.mark.parametrize(
    ("rule", "name", "expected"),
    [
        ("RULE:CN=(a)(1)/$21-\\$1/", "CN=a1", "11-$1"),
        ("RULE:.*/X/", "abc", "XX"),
        ("RULE:^CN=(.*)$/$1$2/", "CN=a", "a$2"),
        ("RULE:^CN=(.*)$/$11/", "CN=a", "a1"),
        ("RULE:^CN=(?<user>.*)$/$1/", "CN=a", "a"),
        ("RULE:^CN=(a)?.*$/<$1>/", "CN=b", "<>"),
        (" RULE:^CN=(.*)$/$1/ , DEFAULT ", "CN=a", "a"),
        ("DEFAULT,RULE:^CN=(.*)$/$1/", "CN=a", "CN=a"),
        (r"RULE:^CN=(\/.*)$/$1\/x/", "CN=/a", "/a/x"),
        ("", "CN=a", None),
        ("RULE:^CN=(.*)$/$1/", "OU=a", None),
        ("RULE:^CN=.*$/$1/", "CN=a", None),
        ("RULE:^CN=.*$/$x/", "CN=a", None),
    ],
)
def test_replacements(rule: str, name: str, expected: str | None) -> None:
    mapping = PrincipalMapping(rule)
    if expected is None:
        with pytest.raises(NoRule):
            mapping.name_of(name)
    else:
        assert mapping.name_of(name) == expected


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/",
    ],
)
def test_malformed_rules(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
