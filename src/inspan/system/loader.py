"""Which variables the C library obeys before a program's own code runs."""

_PREFIX = "LD_"
# The C library itself ignores these in programs that have more powers than whoever starts them.
_NAMES = frozenset(
    (
        "GCONV_PATH",
        "GETCONF_DIR",
        "GLIBC_TUNABLES",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "LOCPATH",
        "MALLOC_TRACE",
        "NIS_PATH",
        "NLSPATH",
        "RES_OPTIONS",
        "RESOLV_HOST_CONF",
        "TZDIR",
    )
)


def is_loader_variable(name: str) -> bool:
    """Whether it can make a program load or write a file that the program does not name."""
    return name.startswith(_PREFIX) or name in _NAMES
