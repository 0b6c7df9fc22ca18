"""Which of git's settings and variables name programs: one table, for what a box protects and for what is told later.

By the documents of git (git-config, git, gitcredentials and those of its single commands) and of Git LFS.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

Kind = Literal["command", "marked", "files", "hooks", "folder", "template", ""]
"""What a value is: a command; one where it begins with `!`; words that may name files; a folder of hooks, of programs,
of what each new repository gets."""

# In small letters, as `git config --list` has them; `*` is a name that somebody has chosen. The first that fits counts.
PROGRAM_SETTINGS: dict[str, Kind] = {
    "alias.*": "marked",
    "browser.*.cmd": "command",
    "browser.*.path": "command",
    "core.alternaterefscommand": "command",
    "core.askpass": "command",
    "core.editor": "command",
    "core.fsmonitor": "command",
    "core.gitproxy": "command",
    "core.hookspath": "hooks",
    "core.pager": "command",
    "core.sshcommand": "command",
    "credential.helper": "command",
    "credential.*.helper": "command",
    "diff.external": "command",
    "diff.*.command": "command",
    "diff.*.textconv": "command",
    "difftool.*.cmd": "command",
    "difftool.*.path": "command",
    "filter.*.clean": "command",
    "filter.*.process": "command",
    "filter.*.smudge": "command",
    "gc.recentobjectshook": "command",
    "gpg.program": "command",
    "gpg.*.program": "command",
    "gpg.*.defaultkeycommand": "command",
    "guitool.*.cmd": "command",
    "help.browser": "files",
    "hook.*.command": "command",
    "imap.tunnel": "command",
    "init.templatedir": "template",
    "instaweb.browser": "files",
    "instaweb.httpd": "command",
    "instaweb.modulepath": "folder",
    "interactive.difffilter": "command",
    "lfs.customtransfer.*.args": "files",
    "lfs.customtransfer.*.path": "command",
    "lfs.extension.*.clean": "command",
    "lfs.extension.*.smudge": "command",
    "man.*.cmd": "command",
    "man.*.path": "command",
    "merge.*.driver": "command",
    "mergetool.*.cmd": "command",
    "mergetool.*.path": "command",
    "pager.*": "command",
    "remote.*.receivepack": "command",
    "remote.*.uploadpack": "command",
    "remote.*": "files",
    "sendemail.cccmd": "command",
    "sendemail.*.cccmd": "command",
    "sendemail.headercmd": "command",
    "sendemail.*.headercmd": "command",
    "sendemail.sendmailcmd": "command",
    "sendemail.*.sendmailcmd": "command",
    "sendemail.smtpserver": "command",
    "sendemail.*.smtpserver": "command",
    "sendemail.tocmd": "command",
    "sendemail.*.tocmd": "command",
    "sequence.editor": "command",
    "submodule.*.update": "marked",
    "submodule.*.url": "files",
    "svn.authorsprog": "command",
    "svn-remote.*.authorsprog": "command",
    "tar.*.command": "command",
    "trailer.*.cmd": "command",
    "trailer.*.command": "command",
    "trailer.*": "files",
    "uploadpack.packobjectshook": "command",
    "web.browser": "files",
}

PROGRAM_VARIABLES: dict[str, Kind] = {
    "EDITOR": "command",
    "GIT_ASKPASS": "command",
    "GIT_EDITOR": "command",
    "GIT_EXEC_PATH": "folder",
    "GIT_EXTERNAL_DIFF": "command",
    "GIT_PAGER": "command",
    "GIT_PROXY_COMMAND": "command",
    "GIT_SEQUENCE_EDITOR": "command",
    "GIT_SSH": "command",
    "GIT_SSH_COMMAND": "command",
    "GIT_TEMPLATE_DIR": "template",
    "P4EDITOR": "command",
    "PAGER": "command",
    "SSH_ASKPASS": "command",
    "SVN_SSH": "command",
    "VISUAL": "command",
}


def find_kind(key: str) -> Kind:
    """What the value of a setting is; empty for one that names no program."""
    for pattern, kind in PROGRAM_SETTINGS.items():
        if fnmatchcase(key, pattern):
            return kind
    return ""


def list_variables(env: Mapping[str, str]) -> Iterator[tuple[Kind, str]]:
    """The values of those that are set, and what each is."""
    return ((kind, env[name]) for name, kind in PROGRAM_VARIABLES.items() if env.get(name))
