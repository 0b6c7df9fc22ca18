"""One rule for proxies, whoever makes the call."""

import pytest

from inspan.framing.proxy import basic_authorization, find_proxy, proxy_variables

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("host", "port", "no_proxy", "bypasses"),
    [
        ("api.test", 443, "", False),
        ("api.test", 443, "*", True),
        ("api.test", 443, "api.test", True),
        ("api.test", 443, "API.TEST", True),
        ("api.test", 443, ".test", True),
        ("api.test", 443, "*.test", True),
        ("api.test", 443, "test", True),
        ("api.test", 443, "other.test, api.test", True),
        ("api.test", 443, "other.test api.test", True),
        ("api.test", 443, "pi.test", False),
        # A port in an entry is for that port alone.
        ("api.test", 8080, "api.test:8080", True),
        ("api.test", 443, "api.test:8080", False),
        ("fd00::1", 443, "fd00::1", True),
        ("fd00::1", 443, "[fd00::1]", True),
        ("fd00::1", 443, "[fd00::1]:443", True),
        ("fd00::1", 443, "[fd00::1]:444", False),
        ("fd00::1", 443, "fd00::2", False),
        # Loopback never has one.
        ("localhost", 443, "", True),
        ("model.localhost", 443, "", True),
        ("127.0.0.7", 443, "", True),
        ("::1", 443, "", True),
    ],
)
def test_a_host_is_reached_without_a_proxy_where_it_is_excepted(
    host: str, port: int, no_proxy: str, bypasses: bool
) -> None:
    variables = {"https_proxy": PROXY, "no_proxy": no_proxy}
    assert find_proxy("https", host, port, variables) == ("" if bypasses else PROXY)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": "proxy.test:3128"}, PROXY),
        ({"ALL_PROXY": PROXY}, PROXY),
        ({"http_proxy": PROXY}, ""),
        ({"https_proxy": " ", "all_proxy": PROXY}, PROXY),
        ({"https_proxy": f" {PROXY} "}, PROXY),
    ],
)
def test_the_variables_that_programs_agree_on_name_it(environment: dict[str, str], found: str) -> None:
    assert find_proxy("https", "api.test", 443, proxy_variables(environment)) == found


@pytest.mark.parametrize(
    ("login", "value"),
    [("", ""), ("me:secret", "Basic bWU6c2VjcmV0"), ("me", "Basic bWU6"), ("m%65:%73ecret", "Basic bWU6c2VjcmV0")],
)
def test_a_login_becomes_a_header(login: str, value: str) -> None:
    assert basic_authorization(login) == value
