"""What `--net` may say, and which hosts it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.errors import BadInput
from inspan.protocol.network import (
    HostRule,
    NetworkPolicy,
    is_public_enough,
    normalize_host,
    parse_network,
)


@pytest.mark.parametrize("text", ["none", "gateway", "open"])
def test_a_word_is_a_policy_without_hosts(text: str) -> None:
    assert parse_network(text) == NetworkPolicy(reach=text)  # pyright: ignore[reportArgumentType]  one of its words


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("allow=example.org", (HostRule(host="example.org"),)),
        ("allow=Example.ORG.", (HostRule(host="example.org"),)),
        ("allow=*.example.org:8443", (HostRule(host="*.example.org", port=8443),)),
        (
            "allow=10.0.0.5:8080, bücher.example",
            (HostRule(host="10.0.0.5", port=8080), HostRule(host="xn--bcher-kva.example")),
        ),
        ("allow=[2001:DB8::0:1]:443", (HostRule(host="2001:db8::1", port=443),)),
        ("allow=2001:db8::1", (HostRule(host="2001:db8::1"),)),
        ("allow=::ffff:10.0.0.5", (HostRule(host="10.0.0.5"),)),
        ("allow=localhost:5432", (HostRule(host="localhost", port=5432),)),
    ],
)
def test_hosts_are_read_in_every_usual_spelling(text: str, rules: tuple[HostRule, ...]) -> None:
    policy = parse_network(text)
    assert policy == NetworkPolicy(reach="allow", rules=rules)
    assert parse_network(str(policy)) == policy


@pytest.mark.parametrize(
    "text",
    [
        *("", "allow", "allow=", "allow=,", "allowed", "OPEN", "gateway,example.org", "deny=example.org"),
        *("allow=https://example.org", "allow=example.org/path", "allow=user@example.org", "allow=exa mple.org"),
        *("allow=*", "allow=*.org", "allow=*.10.0.0.5", "allow=a.*.org", "allow=-a.org", "allow=a..org", "allow=.org"),
        *(
            "allow=example.org:0",
            "allow=example.org:65536",
            "allow=example.org:http",
            "allow=example.org:",
            "allow=[::1",
        ),
        *("allow=a.example,,b.example", "allow=a\nb", "allow=a\0b", "allow=" + "a" * 64 + ".org"),
    ],
)
def test_what_names_no_network_is_refused_with_what_would(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_network(text)
    assert (caught.value.field, caught.value.value) == ("--net", text)
    assert "allow=HOST" in caught.value.next_step


@pytest.mark.parametrize(
    ("rule", "host", "port", "expected"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org:22", "example.org", 22, True),
        ("example.org:22", "example.org", 443, False),
        ("example.org", "www.example.org", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("*.example.org", "example.org.evil.test", 443, False),
        ("10.0.0.5", "10.0.0.5", 443, True),
        ("10.0.0.5", "10.0.0.50", 443, False),
    ],
)
def test_a_rule_is_about_exactly_its_hosts(rule: str, host: str, port: int, expected: bool) -> None:
    assert (parse_network(f"allow={rule}").find_rule(host, port) is not None) is expected


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("[::FFFF:127.0.0.1]", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "2130706433"),
        ("0x7f.1", "0x7f.1"),
        ("*.example.org", ""),
        ("", ""),
        ("a b", ""),
        ("a\r\nHost: b", ""),
        ("exa\0mple.org", ""),
    ],
)
def test_a_host_has_one_spelling(written: str, meant: str) -> None:
    """A number that some libraries take for an address stays a name: it is on a list only if it was written there."""
    assert normalize_host(written) == meant


@given(st.text(max_size=80))
def test_any_text_is_a_host_or_is_not_and_stays_so(text: str) -> None:
    host = normalize_host(text)
    assert normalize_host(host) == host
    assert not set(host) & set(" \t\r\n\0/@,*")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *(
            (each, False)
            for each in ("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1%eth0")
        ),
        *((each, False) for each in ("224.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "nonsense")),
        *((each, False) for each in ("fd00:ec2::254", "fd00:0ec2:0::254", "100.100.100.200", "::ffff:168.63.129.16")),
        *((each, True) for each in ("192.0.2.1", "10.0.0.5", "2001:db8::1", "fd00::1")),
    ],
)
def test_no_name_stands_for_this_machine_or_its_link(address: str, expected: bool) -> None:
    assert is_public_enough(address) is expected
