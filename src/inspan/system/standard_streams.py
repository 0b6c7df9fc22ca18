"""The standard descriptors 0, 1 and 2: whatever lies there, somebody may print into it."""

import os


def fill_standard_fds() -> None:
    """Opens /dev/null on each that is closed, so that no lock, socket or log of ours can land there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)


def _open_null(number: int) -> None:
    try:
        found = os.open(os.devnull, os.O_RDWR)
    except OSError:
        return  # A place without /dev: the numbers that matter are moved up one by one.
    if found == number:
        os.set_inheritable(number, True)
    else:
        os.close(found)  # Another thread was quicker.
