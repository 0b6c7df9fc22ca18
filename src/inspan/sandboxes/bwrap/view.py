"""What a box sees of the machine: all of it, read-only, or the operating system and the folders of programs alone."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from inspan.contracts.sandbox import Box
from inspan.system.paths import is_within

Mount = tuple[str, ...]

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu", "snap", "sys")
# Where the certificates of some systems, and the programs of others, really are.
_SYSTEM_TOO = ("/var/lib/ca-certificates", "/run/current-system", "/run/opengl-driver")
_TEMPORARY = ("/tmp", "/var/tmp", "/run")
_TEMPORARY_BYTES = 2 * 1024**3
_COVER_BYTES = 64 * 1024**2  # Of what only hides something: mount points lie in it.
# The sockets of this network that have a path: eight columns, of which the last is that path.
_BOUND_SOCKETS = "/proc/net/unix"
_KERNEL = tuple(
    f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "mtrr")
)
# Read where it is a link: the network of the host is useless without it.
_RESOLVER = "/etc/resolv.conf"

# What holds somebody's credentials in a home: hidden wherever more of it is shown, as where it is worked in.
_CREDENTIALS = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".fly",
    ".pulumi",
    ".databrickscfg",
    ".netlify",
    ".config/netlify",
    ".config/configstore",
    ".config/stripe",
    ".config/heroku",
    ".config/glab-cli",
    ".config/fly",
    ".config/sops",
    ".config/Bitwarden CLI",
    ".local/share/heroku",
    ".oci",
    ".boto",
    ".s3cfg",
    ".condarc",
    ".bundle/config",
    ".nuget/NuGet/NuGet.Config",
    ".config/composer/auth.json",
    ".composer/auth.json",
    ".hex/hex.config",
    ".sbt/.credentials",
    ".ivy2/.credentials",
    ".huggingface",
    ".cache/huggingface/token",
    ".kaggle",
    ".wakatime.cfg",
    ".age",
    ".npm-global/etc/npmrc",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".terraform.d",
    ".vault-token",
    ".password-store",
    ".config/gh",
    ".config/gcloud",
    ".config/hub",
    ".config/git/credentials",
    ".config/pip",
    ".config/op",
    ".config/rclone",
    ".config/containers",
    ".config/helm",
    ".config/doctl",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
]


# Beside the programs of a language, a package manager or a virtual environment.
_CREDENTIALS_OF_PREFIX = ["etc/npmrc", ".npmrc", "pip.conf", ".condarc", ".env"]


def show_machine() -> list[Mount]:
    """Everything that the user can read, with a private /tmp."""
    return [("--ro-bind", "/", "/"), *_show_devices(), *_show_processes(), ("--tmpfs", "/tmp")]


def show_system(box: Box) -> list[Mount]:
    """The operating system, the programs of the box, and an empty home."""
    mounts: list[Mount] = [
        *(_show_system_folder(f"/{name}") for name in _SYSTEM if os.path.lexists(f"/{name}")),
        *_show_devices(),
        *_show_processes(),
        *(_make_temporary(path, mode="1777") for path in _TEMPORARY),
        ("--symlink", "/run", "/var/run"),
        *(("--ro-bind-try", path, path) for path in _SYSTEM_TOO),
        *((("--ro-bind-try", real, real),) if (real := os.path.realpath(_RESOLVER)) != _RESOLVER else ()),
        *(_hide(path) for path in _list_private("/etc", moment=int(time.monotonic()))),
    ]
    if box.home and not is_within(box.home, box.cwd):
        mounts.append(_make_temporary(box.home, mode="0700"))
    mounts += [("--ro-bind-try", path, path) for path in box.programs]
    return mounts


def hide_credentials(box: Box) -> Iterator[Mount]:
    """What is known to hold credentials in whatever is shown, unless it is named itself."""
    if not box.home:
        return
    named = (*box.readable, *box.writable)
    shown = (box.cwd, *named, *box.programs)
    for path in dict.fromkeys(_list_credentials(box)):
        if path not in named and any(is_within(path, folder) for folder in shown):
            yield _hide(path)


def hide_sockets(box: Box) -> Iterator[Mount]:
    """The sockets of the host's programs among what everybody is shown: a mount keeps nobody from connecting to one."""
    if not box.private:
        return
    given = (box.cwd, *box.readable, *box.writable)
    shown = (*(os.path.realpath(f"/{name}") for name in _SYSTEM), *_SYSTEM_TOO, *box.programs)
    for path in _list_sockets():
        if any(is_within(path, folder) for folder in shown) and not any(is_within(path, folder) for folder in given):
            yield _hide(path)


def cover(path: str) -> Mount:
    """An empty folder in the place of one that must not be seen."""
    return ("--size", str(_COVER_BYTES), "--tmpfs", path)


def _list_sockets() -> Iterator[str]:
    """Those that have a whole path which still leads to them, by their real paths."""
    try:
        with open(_BOUND_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(maxsplit=7) for line in file]
    except OSError:
        return
    for path in dict.fromkeys(row[7] for row in rows if len(row) == 8 and row[7].startswith("/")):
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(path).st_mode):
                yield os.path.realpath(path)


def _list_credentials(box: Box) -> Iterator[str]:
    """Those that are there, by their real paths, on which alone something can be mounted."""
    paths = [os.path.join(box.home, name) for name in _CREDENTIALS]
    paths += [os.path.join(folder, name) for folder in box.programs for name in _CREDENTIALS_OF_PREFIX]
    for path in filter(os.path.exists, paths):  # Nearly all of them are not there: that is one look each.
        real = os.path.realpath(path)
        if real == path or is_within(real, box.home):
            yield real


def _show_devices() -> list[Mount]:
    """A few that harm nobody. What is written there would be memory without a limit, so only one folder can be."""
    return [("--dev", "/dev"), _make_temporary("/dev/shm", mode="1777"), ("--remount-ro", "/dev")]


def _make_temporary(path: str, *, mode: str) -> Mount:
    return ("--perms", mode, "--size", str(_TEMPORARY_BYTES), "--tmpfs", path)


def _show_processes() -> list[Mount]:
    """The processes of the box. What else lies there belongs to the kernel, and is written by whoever owns root's
    files: root in a box is still that, whatever it is called, and a core pattern names a program that the host runs.
    """
    return [("--proc", "/proc"), *(("--ro-bind-try", path, path) for path in _KERNEL)]


def _show_system_folder(path: str) -> Mount:
    """As it is: on many systems some of them are links to others."""
    return ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind", path, path)


def _hide(path: str) -> Mount:
    return cover(path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)


@lru_cache(maxsize=4)
def _list_private(top: str, *, moment: int) -> tuple[str, ...]:
    """What we can read and others cannot. Root in a box is still the owner of root's files, whatever it is called.

    Those of one `moment`, a second, are looked for once: a box is tried out first, and then made.
    """
    found: list[str] = []
    folders = [top]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if _is_for_everybody(entry, stat.S_IXOTH if is_folder else stat.S_IROTH):
                    if is_folder:
                        folders.append(entry.path)
                elif os.access(entry.path, os.R_OK):
                    found.append(entry.path)
    return tuple(found)


def _is_for_everybody(entry: os.DirEntry[str], bit: int) -> bool:
    """Whether its mode says so. What has vanished meanwhile says nothing, and must not end the look at the others."""
    try:
        return bool(entry.stat(follow_symlinks=False).st_mode & bit)
    except OSError:
        return False
