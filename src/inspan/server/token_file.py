"""The token that opens a server: kept beside the runs, so that it survives the server, and what follows from it."""

import base64
import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from typing import Literal

from inspan.stores.paths import make_private_folder, state_error
from inspan.system.atomic_file import replace_file

Purpose = Literal["cookie", "key", "read-only token", "read-only cookie", "read-only key"]
"""What a browser keeps: the cookie, which reads, and the key, with which it changes something."""

TOKEN_OF_SCOPE = "inspan.token"
"""Where a request keeps the token by which it was let in, or from which was derived what let it in."""
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{32,128}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_BYTES = 4096


def server_folder(state: str) -> str:
    """Where servers of this state folder keep what has to survive them."""
    return make_private_folder(os.path.join(make_private_folder(state), "server"))


class TokenFile:
    """The token of all servers of one state folder. One that was replaced meanwhile, by any of them, counts at once."""

    def __init__(self, state: str, *, renew: bool = False) -> None:
        self._path = os.path.join(server_folder(state), "token")
        self._seen: tuple[int, int] = (0, 0)
        self._token = b""
        try:
            if renew:
                replace_file(self._path, _make_token(), sync=True)
            if not self._read():
                self._create()
        except OSError as error:
            raise state_error(self._path, error) from error

    @property
    def token(self) -> str:
        """The token as it is now."""
        with suppress(OSError):  # One that was deleted meanwhile still counts for this server.
            self._read()
        return self._token.decode()

    def derive(self, purpose: Purpose) -> str:
        """What opens one thing alone: whoever has it cannot tell the token, and it counts as long as the token does."""
        digest = hmac.new(self.token.encode(), f"inspan {purpose} 1".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def is_token(self, given: str) -> bool:
        """Whether this is the token, found out in the same time whatever it is."""
        return _is_equal(given, self.token)

    def is_derived(self, given: str, purpose: Purpose) -> bool:
        """Whether this is what was derived for a purpose, found out likewise."""
        return _is_equal(given, self.derive(purpose))

    def _read(self) -> bool:
        try:
            found = os.stat(self._path, follow_symlinks=False)
            seen = (found.st_ino, found.st_mtime_ns)
            if self._token and seen == self._seen:
                return True
            fd = os.open(self._path, _READ)
        except FileNotFoundError:
            return False
        try:
            os.fchmod(fd, 0o600)  # Whoever has copied it there may have let others read it.
            token = os.read(fd, _LONGEST_BYTES).strip()
        finally:
            os.close(fd)
        if _TOKEN.fullmatch(token):
            self._token, self._seen = token, seen
            return True
        return False

    def _create(self) -> None:
        """Two servers that start at once agree: the first draft that gets its name is the token of both."""
        draft = f"{self._path}.{os.urandom(6).hex()}"
        replace_file(draft, _make_token(), sync=True)
        try:
            os.link(draft, self._path)
        except FileExistsError:
            if self._read():
                return
            os.replace(draft, self._path)  # What lay there was no token.
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        self._read()


def _make_token() -> bytes:
    return secrets.token_urlsafe(32).encode() + b"\n"


def _is_equal(given: str, true: str) -> bool:
    return bool(true) and hmac.compare_digest(given.encode(errors="replace"), true.encode())
