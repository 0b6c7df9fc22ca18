"""What a wheel carries beside the package: the changelog, manual pages and completions made from the commands, and a
description made from the README.

The pages lie where a tool that installs programs finds them: `share/man`, and where each shell looks for completions.
"""

import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_COMPLETIONS = {
    "bash": "share/bash-completion/completions/inspan",
    "zsh": "share/zsh/site-functions/_inspan",
    "fish": "share/fish/vendor_completions.d/inspan.fish",
}


_INSTALL = """\
```console
$ uv tool install 'inspan[server]'                         # or by pipx or pip; the extra is for `inspan serve`
$ inspan demo                                              # a real agent fixes a failing test: no key, no account
"""
# What a page of a package index does not have: the rest of the repository, pictures, notes to those who build.
_LEFT_OUT = re.compile(r"<!-- repository -->.*?<!-- /repository -->\n|<picture>.*?</picture>\n|<!--.*?-->\n", re.DOTALL)
_MAKE_DEMO = re.compile(r"```console\n\$ make demo.*\n")
_RELATIVE_LINK = re.compile(r"\[([^]]+)]\((?!https?://)[^)]+\)")
# One that says nothing but where to read on, as a sentence or in brackets.
_BARE_LINK = re.compile(rf"(?<=\.)\s{_RELATIVE_LINK.pattern}(?: (?=\|)|\.)|\s\({_RELATIVE_LINK.pattern}\)")
_EMPTY_LINES = re.compile(r"\n{3,}")


def build_description(readme: str) -> str:
    """The README for somebody who has the wheel alone: what leads into the repository is left out, or plain words."""
    text = _MAKE_DEMO.sub(lambda _: _INSTALL, _LEFT_OUT.sub("", readme), count=1)
    return _EMPTY_LINES.sub("\n\n", _RELATIVE_LINK.sub(r"\1", _BARE_LINK.sub("", text)))


class DescriptionHook(MetadataHookInterface):
    """No address of the repository is known that its links could lead to."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the long description, which `dynamic` announces."""
        text = build_description(Path(self.root, "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class ShellFilesHook(BuildHookInterface[Any]):
    """An editable installation has none: `inspan completion --install` writes them."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """The commands have to be imported to be described."""
        return self.metadata.core.dependencies

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        # Only now: the package that is built is not installed yet.
        from inspan.cli.commands.completion import build_script, mark_script
        from inspan.cli.main import inspan
        from inspan.cli.man_pages import PACKAGE_MARK, build_man_pages

        build_data["force_include"][str(Path(self.root, "CHANGELOG.md"))] = "inspan/CHANGELOG.md"
        files = {f"share/man/man1/{name}": text for name, text in build_man_pages(inspan, mark=PACKAGE_MARK).items()}
        files |= {path: mark_script(shell, build_script(shell), PACKAGE_MARK) for shell, path in _COMPLETIONS.items()}
        for path, text in files.items():
            made = Path(self.directory, "shell-files", path)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(made)] = path
