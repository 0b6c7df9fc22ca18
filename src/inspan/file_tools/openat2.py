"""`openat2` of Linux: the kernel itself keeps a path beneath a folder, whatever is renamed or linked meanwhile."""

import errno
import os

# The same number on every processor that has the call, which came after the numbers were made one.
_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _BENEATH = 0x01, 0x02, 0x08
_HOW_BYTES = 24
# A rename beside a `..` makes the kernel ask for another try.
_TRIES = 200


class KernelOpener:
    """Opens paths beneath an open folder; links are followed as long as they stay there, mounts are not entered."""

    def __init__(self) -> None:
        import ctypes  # Start-up time: where the kernel has no such call, the names are walked one by one.

        self._ctypes = ctypes
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall

    def __call__(self, folder: int, path: str, flags: int) -> int:
        """A descriptor; raises `OSError`, with EXDEV for what leads out of the folder."""
        types = self._ctypes
        how = (types.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS | _NO_XDEV)
        words = (types.c_long(_OPENAT2), types.c_long(folder), types.c_char_p(os.fsencode(path)))
        number = errno.EAGAIN
        for _ in range(_TRIES):
            fd: int = self._syscall(*words, types.byref(how), types.c_size_t(_HOW_BYTES))
            if fd >= 0:
                return fd
            number = types.get_errno()
            if number not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(number, os.strerror(number), path)


def find_kernel_opener(folder: int) -> "KernelOpener | None":
    """The opener, where the kernel has the call and lets this process make it: some containers do not."""
    try:
        opener = KernelOpener()
        os.close(opener(folder, ".", os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_PATH", 0)))
    except (ImportError, AttributeError, OSError):
        return None
    return opener
