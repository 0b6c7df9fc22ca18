"""Which environment variables are secrets, by whole words of their names and the look of their values.

Errs to the side of redacting, but a value that is an ordinary word or a path would turn every log to mush.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count, pairwise
from urllib.parse import unquote, urlsplit

SHORTEST_SECRET = 8

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET_WORDS = _word_set("""
    TOKEN SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE PASSCODE CREDENTIAL CREDENTIALS BEARER JWT
    APIKEY APIKEYS APITOKEN AUTHTOKEN ACCESSTOKEN PRIVATEKEY SECRETKEY ACCESSKEY PGPASSWORD
""")
# Before KEY or KEYS.
_SECRET_KEYS = _word_set("API ACCESS PRIVATE SIGNING ENCRYPTION MASTER ACCOUNT SUBSCRIPTION DEPLOY LICENSE")
_SECRET_LAST_WORDS = _word_set("PASS PWD")
# These often name something harmless, so the value must look made by a machine.
_LIKELY_LAST_WORDS = _word_set("KEY KEYS AUTH TOKENS COOKIE PAT DSN")
# A name that ends so tells something about a secret, not the secret.
_HARMLESS_LAST_WORDS = _word_set("""
    DIR DIRS DIRECTORY PATH PATHS FILE FILES FILENAME SOCK SOCKET HOST HOSTNAME PORT NAME NAMES USER USERNAME
    TTL TIMEOUT EXPIRY EXPIRES EXPIRATION LENGTH LIMIT COUNT SIZE VERSION REGION TYPE MODE FORMAT HELPER STORE
    MANAGER PROVIDER BACKEND ALGORITHM HEADER PREFIX SUFFIX PATTERN REGEX PROMPT POLICY ENABLED DISABLED
    REQUIRED PARALLELISM
""")
_COMMON_VALUES = _word_set("""
    disabled localhost undefined required optional automatic anonymous password passwords passw0rd changeme
    changeit placeholder redacted keychain osxkeychain production development internal external unlimited
    username postgres rabbitmq x-oauth-basic x-access-token your-api-key your_api_key
""")
_PATH = re.compile(r"(?:~|\.{1,2}/|/|[A-Za-z]:[\\/]|file:)")
_FILE_NAME = re.compile(
    r"[\w.@-]+(?:/[\w.@-]+)*\.(?:json|txt|pem|key|crt|cert|p12|ya?ml|toml|env|ini|conf|cfg|sock|db)",
    re.IGNORECASE,
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REFERENCE = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+|<[^>]*>|\{\{.*\}\}|%\w+%")
# Whatever it is called.
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")
# `?password=…` of a URL, `password=…` of libpq, `AccountKey=…;` of a connection string.
_ASSIGNMENT = re.compile(r"(?:^|[?&;\s])([A-Za-z][\w-]*)=([^\s;&]+)")


def find_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that look like secrets, and passwords inside URLs and connection strings.

    Where one variable holds several (a password as its URL spells it, and as it is), the next is `NAME.2`, or the
    first number behind it that is no variable's own name.
    """
    found: dict[str, str] = {}
    for name, value in env.items():
        numbers = count(2)
        label = name
        for secret in _find_in_variable(name, value.strip()):
            found[label] = secret
            label = next(each for number in numbers if (each := f"{name}.{number}") not in env)
    return found


@lru_cache(maxsize=1024)  # A program that starts many runs asks for the same variables each time.
def _find_in_variable(name: str, value: str) -> list[str]:
    if _PRIVATE_KEY.search(value):
        return [value]
    inside = list(dict.fromkeys(_find_embedded(value)))
    if inside or _URL.match(value):
        return inside
    return [value] if _names_a_secret(name, value) and _can_be_secret(value) else []


def _find_embedded(value: str) -> Iterator[str]:
    """The parts of a URL or a connection string that are secret, each as written and as meant."""
    for part in (*_find_in_userinfo(value), *_find_in_assignments(value)):
        for spelling in (part, unquote(part)):
            if _can_be_secret(spelling):
                yield spelling


def _find_in_userinfo(value: str) -> Iterator[str]:
    if not _URL.match(value):
        return
    try:
        parts = urlsplit(value)
    except ValueError:
        return
    if parts.password:
        yield parts.password
    if parts.username and _looks_generated(parts.username):
        yield parts.username


def _find_in_assignments(value: str) -> Iterator[str]:
    for key, assigned in _ASSIGNMENT.findall(value):
        if _names_a_secret(key, assigned):
            yield assigned


def _names_a_secret(name: str, value: str) -> bool:
    words = [word.upper() for word in _WORD.findall(name)]
    if not words or words[-1] in _HARMLESS_LAST_WORDS:
        return False
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    if any(first in _SECRET_KEYS and second in ("KEY", "KEYS") for first, second in pairwise(words)):
        return True
    return words[-1] in _SECRET_LAST_WORDS or (words[-1] in _LIKELY_LAST_WORDS and _looks_generated(value))


def _can_be_secret(value: str) -> bool:
    ordinary = value.lower() in _COMMON_VALUES or len(set(value)) == 1 or _REFERENCE.fullmatch(value)
    return len(value) >= SHORTEST_SECRET and not ordinary and not _looks_like_a_path(value)


def _looks_like_a_path(value: str) -> bool:
    if _FILE_NAME.fullmatch(value):
        return True
    # Base64 may begin with a slash too, but no folder is called wJalrXUtnFEMIK7MDENG.
    return bool(_PATH.match(value)) and not any(_is_mixed(part) for part in re.split(r"[/\\]", value))


def _looks_generated(value: str) -> bool:
    has_letter = any(character.isalpha() for character in value)
    has_digit = any(character.isdigit() for character in value)
    return len(value) >= 16 and has_letter and has_digit and not any(map(str.isspace, value))


def _is_mixed(part: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(part) >= 16 and "." not in part and all(any(map(kind, part)) for kind in kinds)
