"""Reading a file that a stranger may have put in its place: never waited for, and never larger than memory."""

import errno
import os
import stat

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def read_plain_file(path: str, *, most_bytes: int, follow: bool = False) -> bytes:
    """What a regular file holds; raises `OSError` for whatever is none, and for one that holds more than that.

    A link is none unless it is to be followed.
    """
    try:
        fd = os.open(path, _FLAGS & ~os.O_NOFOLLOW if follow else _FLAGS)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "symbolic links are not followed", path) from error
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a file", path)
        # What it says of its size may change meanwhile.
        pieces, left = list[bytes](), most_bytes + 1
        while left and (piece := os.read(fd, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    finally:
        os.close(fd)
    if not left:
        raise OSError(errno.EFBIG, f"it holds more than {most_bytes} bytes", path)
    return b"".join(pieces)
