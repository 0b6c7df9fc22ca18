"""An archive of a package, unpacked without trusting it: nothing lands outside of the folder that it was given.

The standard library has a filter for this only since 3.11.4, and Debian 12 has 3.11.2.
"""

import os
import shutil
import tarfile
import zlib

_EXECUTABLE = 0o111


class BadArchive(Exception):
    """What is wrong with an archive, in a few words."""


def unpack(archive: str, folder: str) -> None:
    """Unpacks a tar into a folder that must not exist yet; raises `BadArchive`, and `OSError` for the disk's faults.

    Only files and folders are taken, by names that stay below. Links and devices are refused: npm unpacks none either.
    """
    os.mkdir(folder, 0o700)
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                _extract_member(opened, member, folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BadArchive(str(error) or type(error).__name__) from error


def _extract_member(opened: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise BadArchive(f"{member.name!r} would lie outside of it")
    path = os.path.join(folder, *parts)
    if member.isdir():
        os.makedirs(path, mode=0o755, exist_ok=True)
        return
    content = opened.extractfile(member) if member.isfile() else None
    if content is None or not parts:
        raise BadArchive(f"{member.name!r} is neither a file nor a folder")
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    mode = 0o755 if member.mode & _EXECUTABLE else 0o644
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with content, open(fd, "wb") as file:
        shutil.copyfileobj(content, file)
