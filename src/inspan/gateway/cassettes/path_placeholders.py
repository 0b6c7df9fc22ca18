"""The folders of a run, written as placeholders: what was recorded in one folder is played in another."""

import json
import os
import re
from collections.abc import Mapping

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]")
# A path may follow an escaped newline of JSON inside JSON; otherwise it must not be the tail of a longer one.
_BEFORE = r"(?:(?<![\w.~-])|(?<=\\[nrt]))"
_AFTER = r"(?![\w-])"
_LITERAL = "literal "
# The other placeholders, which are not known here: only that a text had them before is.
_ID_PLACEHOLDER = r"id \d+\.\d+"


class PathPlaceholders:
    """Folders by name, such as `cwd` and `home`. What `to_placeholders` makes of a text, `from_placeholders` turns back
    into it.

    A folder is also found by the path that it resolves to, as JSON spells it, and, as `NAME-dashed`, in the spelling
    that agents name their folders for a project by: all but letters and digits as dashes.
    """

    def __init__(self, folders: Mapping[str, str]) -> None:
        usable = {name: folder.rstrip("/") for name, folder in folders.items() if len(folder.rstrip("/")) > 1}
        dashed = {f"{name}-dashed": _NOT_IN_A_NAME.sub("-", folder) for name, folder in usable.items()}
        self._folders = usable | dashed
        self._names: dict[str, str] = {}
        for name, folder in self._folders.items():
            for spelling in _spellings(folder):
                self._names.setdefault(spelling, name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._spellings = tuple(longest_first)
        folder = "|".join(map(re.escape, longest_first)) or r"(?!)"
        known = "|".join([*map(re.escape, self._folders), _ID_PLACEHOLDER])
        self._path_pattern = re.compile(
            rf"{_BEFORE}(?P<folder>{folder}){_AFTER}|\{{\{{(?P<rest>(?:{_LITERAL})*(?:{known}))\}}\}}"
        )
        self._placeholder_pattern = re.compile(
            rf"\{{\{{(?P<literal>{_LITERAL})?(?P<rest>(?:{_LITERAL})*(?P<name>{known}))\}}\}}"
        )

    def to_placeholders(self, text: str) -> str:
        """The text with placeholders for folders; the same object when there is none."""
        if "{{" in text or any(spelling in text for spelling in self._spellings):
            return self._path_pattern.sub(self._to_placeholder, text)
        return text

    def from_placeholders(self, text: str, *, quoted: bool = False) -> str:
        """The text with folders for placeholders, spelled as inside a JSON string if `quoted`."""
        if "{{" not in text:
            return text
        return self._placeholder_pattern.sub(lambda found: self._from_placeholder(found, quoted=quoted), text)

    def _to_placeholder(self, found: re.Match[str]) -> str:
        folder = found["folder"]
        return f"{{{{{self._names[folder]}}}}}" if folder else f"{{{{{_LITERAL}{found['rest']}}}}}"

    def _from_placeholder(self, found: re.Match[str], *, quoted: bool) -> str:
        if found["literal"]:
            return f"{{{{{found['rest']}}}}}"
        folder = self._folders.get(found["name"])
        if folder is None:
            return found[0]
        return json.dumps(folder, ensure_ascii=False)[1:-1] if quoted else folder


def _spellings(folder: str) -> set[str]:
    resolved = os.path.realpath(folder) if folder.startswith("/") else folder
    plain = {folder, resolved} if len(resolved) > 1 else {folder}
    return plain | {json.dumps(path, ensure_ascii=ascii_only)[1:-1] for path in plain for ascii_only in (True, False)}
