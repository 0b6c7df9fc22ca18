"""Files that are replaced whole or not at all: whoever reads one sees the old content or the new."""

import os

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str, data: bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """Puts `data` in the place of a file; `sync` waits for the disk. Raises `OSError`, and the old file stays.

    Two that write at once, threads of one process or processes that see other pids, each have a draft of their own.
    """
    draft = f"{path}.{os.urandom(6).hex()}.draft"
    fd = os.open(draft, _DRAFT, mode)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)  # Whatever the umask says.
            file.write(data)
            if sync:
                file.flush()
                os.fsync(fd)
        os.replace(draft, path)
    except BaseException:
        try:
            os.unlink(draft)
        except OSError:
            pass  # The first error says why.
        raise
