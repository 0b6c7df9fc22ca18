"""What a box sees of the machine: all of it, read-only, or the operating system and the folders of programs alone."""

import os
import stat
from collections.abc import Iterator

from inspan.contracts.sandbox import Box

Mount = tuple[str, ...]

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu", "snap", "sys")
# Where the certificates of some systems, and the programs of others, really are.
_SYSTEM_TOO = ("/var/lib/ca-certificates", "/run/current-system", "/run/opengl-driver")
_TEMPORARY = ("/tmp", "/var/tmp", "/run")
_TEMPORARY_BYTES = 2 * 1024**3
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
    return [("--ro-bind", "/", "/"), ("--dev", "/dev"), *_show_processes(), ("--tmpfs", "/tmp")]


def show_system(box: Box) -> list[Mount]:
    """The operating system, the programs of the box, and an empty home."""
    mounts: list[Mount] = [
        *(_show_system_folder(f"/{name}") for name in _SYSTEM if os.path.lexists(f"/{name}")),
        ("--dev", "/dev"),
        *_show_processes(),
        *(("--perms", "1777", "--size", str(_TEMPORARY_BYTES), "--tmpfs", path) for path in _TEMPORARY),
        ("--symlink", "/run", "/var/run"),
        *(("--ro-bind-try", path, path) for path in _SYSTEM_TOO),
        *((("--ro-bind-try", real, real),) if (real := os.path.realpath(_RESOLVER)) != _RESOLVER else ()),
        *(_hide(path) for path in _list_private("/etc")),
    ]
    if box.home and not _is_within(box.home, box.cwd):
        mounts.append(("--perms", "0700", "--size", str(_TEMPORARY_BYTES), "--tmpfs", box.home))
    mounts += [("--ro-bind-try", path, path) for path in box.programs]
    return mounts


def hide_credentials(box: Box) -> Iterator[Mount]:
    """What is known to hold credentials in whatever is shown, unless it is named itself."""
    if not box.home:
        return
    named = (*box.readable, *box.writable)
    shown = (box.cwd, *named, *box.programs)
    for path in dict.fromkeys(_list_credentials(box)):
        if path not in named and any(_is_within(path, folder) for folder in shown):
            yield _hide(path)


def _list_credentials(box: Box) -> Iterator[str]:
    """Those that are there, by their real paths, on which alone something can be mounted."""
    paths = [os.path.join(box.home, name) for name in _CREDENTIALS]
    paths += [os.path.join(folder, name) for folder in box.programs for name in _CREDENTIALS_OF_PREFIX]
    for path in paths:
        real = os.path.realpath(path)
        if os.path.exists(real) and (real == path or _is_within(real, box.home)):
            yield real


def _show_processes() -> list[Mount]:
    """The processes of the box. What else lies there belongs to the kernel, and is written by whoever owns root's
    files: root in a box is still that, whatever it is called, and a core pattern names a program that the host runs.
    """
    return [("--proc", "/proc"), *(("--ro-bind-try", path, path) for path in _KERNEL)]


def _show_system_folder(path: str) -> Mount:
    """As it is: on many systems some of them are links to others."""
    return ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind", path, path)


def _hide(path: str) -> Mount:
    return ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)


def _list_private(folder: str) -> Iterator[str]:
    """What we can read and others cannot. Root in a box is still the owner of root's files, whatever it is called."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.path, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
    except OSError:
        return
    for path, mode in found:
        is_folder = stat.S_ISDIR(mode)
        if not stat.S_ISLNK(mode) and not mode & (stat.S_IXOTH if is_folder else stat.S_IROTH):
            if os.access(path, os.R_OK):
                yield path
        elif is_folder:
            yield from _list_private(path)


def _is_within(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder
