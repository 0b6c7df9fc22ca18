"""Which variables of an environment are taken for secrets."""

import pytest

from inspan.redaction import find_secrets

VALUE = "q7Hk29xLmPz41RtWv83y"


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN_2",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_APIKEY",
        "openaiApiKey",
        "openai-api-key",
        "npm_config__authToken",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "CLIENT_SECRET",
        "VAULT_SECRET_ID",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SMTP_PASS",
        "PGPASSWD_PASSWD",
        "GPG_PASSPHRASE",
        "REGISTRY_CREDENTIALS",
        "SSH_PRIVATE_KEY",
        "HTTP_BEARER",
        "SIGNING_KEY",
        "STRIPE_KEY",
        "GITHUB_PAT",
        "REDIS_AUTH",
        "SESSION_COOKIE",
    ],
)
def test_a_name_with_a_secret_word_is_a_secret(name: str) -> None:
    assert find_secrets({name: VALUE}) == {name: VALUE}


@pytest.mark.parametrize(
    "name",
    [
        "GIT_AUTHOR_NAME",
        "SSH_AUTH_SOCK",
        "KEYBOARD_LAYOUT",
        "TOKENIZERS_PARALLELISM",
        "PASSWORD_STORE_DIR",
        "PASSWORD_FILE",
        "TOKEN_TTL",
        "SECRET_NAME",
        "CREDENTIAL_HELPER",
        "MONKEY_BUSINESS",
        "COMPASS",
        "AUTHORIZATION_MODE",
        "SECRETARY",
        "PATH",
        "_",
        "",
    ],
)
def test_a_name_without_one_is_not(name: str) -> None:
    assert find_secrets({name: VALUE}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "short",
        "1234567",
        "/run/secrets/token",
        "~/.config/token",
        "./secrets/token",
        "../token-file",
        "C:\\Users\\me\\token",
        "file:///etc/token",
        "config/credentials.json",
        "id_ed25519.pem",
        "localhost",
        "disabled",
        "Undefined",
        "changeme",
        "xxxxxxxxxxxx",
        "https://auth.example.com/oauth/token",
        "${GITHUB_TOKEN}",
        "<your token here>",
    ],
)
def test_a_value_that_is_short_or_ordinary_or_a_path_is_not(value: str) -> None:
    assert find_secrets({"SOME_TOKEN": value}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "hunter2hunter2",
        "87654321",
        "correct horse battery staple",
        "/Jalr/UtnFEMIK7MDENGbPxRfiCYzzzzzzKEY",
        "abc/def+ghi==",
        '{"type":"service_account"}',
        "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----",
    ],
)
def test_any_other_value_under_a_secret_name_is(value: str) -> None:
    assert find_secrets({"SOME_TOKEN": value}) == {"SOME_TOKEN": value}


@pytest.mark.parametrize(
    ("name", "value"), [("SORT_KEY", "created_at"), ("MAX_TOKENS", "100000000"), ("TEST_DSN", "plain-text")]
)
def test_a_weak_name_needs_a_value_that_looks_made(name: str, value: str) -> None:
    assert find_secrets({name: value}) == {}


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("postgres://app:hunter2hunter2@db:5432/app", "hunter2hunter2"),
        ("redis://:hunter2hunter2@cache:6379/0", "hunter2hunter2"),
        (
            "https://0123456789abcdef0123456789abcdef@o1.ingest.example.io/1",
            "0123456789abcdef0123456789abcdef",
        ),
        ("https://ghp_0123456789abcdefghij:x-oauth-basic@github.com/a/b", "ghp_0123456789abcdefghij"),
        ("jdbc:postgresql://db/app?user=app&password=hunter2hunter2", "hunter2hunter2"),
        ("host=db user=app password=hunter2hunter2", "hunter2hunter2"),
        ("Endpoint=x;AccountName=app;AccountKey=q7Hk29xLmPz41RtWv83y==;", "q7Hk29xLmPz41RtWv83y=="),
    ],
)
def test_of_a_connection_string_only_the_secret_part_is_taken(value: str, secret: str) -> None:
    assert find_secrets({"DATABASE_URL": value}) == {"DATABASE_URL": secret}


def test_a_password_with_percent_signs_is_taken_as_written_and_as_meant() -> None:
    found = find_secrets({"DATABASE_URL": "postgres://app:p%40ssw0rd99@db/app"})
    assert found == {"DATABASE_URL": "p%40ssw0rd99", "DATABASE_URL.2": "p@ssw0rd99"}


@pytest.mark.parametrize("value", ["postgres://db:5432/app", "postgres://app:postgres@db/app", "http://[broken"])
def test_a_url_without_a_real_password_is_left_alone(value: str) -> None:
    assert find_secrets({"DATABASE_URL": value}) == {}


def test_a_newline_at_the_end_does_not_belong_to_the_secret() -> None:
    assert find_secrets({"SOME_TOKEN": "hunter2hunter2\n"}) == {"SOME_TOKEN": "hunter2hunter2"}


def test_a_second_secret_of_a_variable_takes_no_other_ones_name() -> None:
    env = {"URL": "postgres://app:p%40ssw0rd99@db/app", "URL.2": "postgres://app:hunter2hunter2@db/app"}
    found = find_secrets(env)
    assert found == {"URL": "p%40ssw0rd99", "URL.3": "p@ssw0rd99", "URL.2": "hunter2hunter2"}


def test_a_private_key_is_a_secret_whatever_it_is_called() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----"
    block = key.replace("OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
    public = key.replace("PRIVATE", "PUBLIC")
    assert find_secrets({"DEPLOY": key, "SIGNER": block, "OTHER": public}) == {"DEPLOY": key, "SIGNER": block}
