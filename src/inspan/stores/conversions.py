"""Keeping files as they lie, byte for byte, though git would convert them.

By a repository's rules git changes line endings, `$Id$` and encodings when it takes a file in and when it writes one,
and refuses what it cannot convert. A git directory of ours has a rule above all of them: nothing is converted. What was
taken in by the user's own git before is read again where that made a difference.
"""

import filecmp
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .git import Git, Steps, check_step, read_file, write_file
from .run_folder import remove_file

REGULAR_MODES = (b"100644", b"100755")
_RULES, _USERS_RULES = "info/attributes", "info/attributes-of-user"
_NO_CONVERSION = b"\n* -text -ident -working-tree-encoding\n"
_ATTRIBUTES = ".gitattributes"
_CONVERTING = ("text", "crlf", "eol", "ident", "working-tree-encoding", "filter")
_OFF = (b"unspecified", b"unset")
_YIELD_EVERY = 500
_STAGED = ("ls-files", "--stage", "-z")
_PLACE = ("update-index", "--add", "--replace", "-z", "--index-info")
_UPDATE = ("update-index", "--add", "-z", "--stdin")


class Entry(NamedTuple):
    """A file in an index: its mode and the id of its content."""

    mode: bytes
    object: bytes


Attributes = Mapping[bytes, bytes]


def keep_bytes_steps(git: Git, settings: Mapping[str, str]) -> Steps[None]:
    """Has a git directory of ours, which has just been filled, take in every file as it lies.

    `settings` are those that its repository's own git would use.
    """
    remove_file(os.path.join(git.git_dir, _USERS_RULES))
    if os.path.exists(os.path.join(git.git_dir, _RULES)):
        os.rename(os.path.join(git.git_dir, _RULES), os.path.join(git.git_dir, _USERS_RULES))
    _write_rules(git, converts=True)
    staged = b"" if (yield git.step(*_STAGED, stdout="staged")) else read_file(git.file("staged"))
    if _has_rules(git, settings, staged):
        entries = parse_entries(staged)
        converted = yield from _find_converted_steps(git, entries)
        # Without the times of a file git looks into it again.
        yield from place_entries_steps(git, {name: entries[name] for name in converted})
    _write_rules(git, converts=False)


def read_entries_steps(git: Git) -> Steps[dict[bytes, Entry]]:
    """The regular files of our index that are not in conflict."""
    yield from check_step(git.step(*_STAGED, stdout="staged"))
    return parse_entries(read_file(git.file("staged")))


def parse_entries(staged: bytes) -> dict[bytes, Entry]:
    """Reads what `git ls-files --stage -z` prints."""
    found: dict[bytes, Entry] = {}
    for line in filter(None, staged.split(b"\0")):
        head, _, name = line.partition(b"\t")
        mode, blob, stage = head.split(b" ")
        if stage == b"0" and mode in REGULAR_MODES:
            found[name] = Entry(mode, blob)
    return found


def _has_rules(git: Git, settings: Mapping[str, str], staged: bytes) -> bool:
    """Whether anything may be converted at all; asking that of each file takes its time."""
    name = _ATTRIBUTES.encode()
    return (
        settings.get("core.autocrlf", "false").lower() not in ("false", "0", "no", "off", "")
        or "core.attributesfile" in settings
        or any(os.path.exists(path) for path in (_users_rules(git), os.path.join(git.top, _ATTRIBUTES)))
        or any(before + name + b"\0" in staged for before in (b"\t", b"/"))
    )


def place_entries_steps(git: Git, entries: Mapping[bytes, Entry], *, index: str = "index") -> Steps[None]:
    """Puts entries into an index, with nothing known of when their files were written."""
    if entries:
        lines = [b"%b %b\t%b\0" % (each.mode, each.object, name) for name, each in entries.items()]
        write_file(git.file("placed"), b"".join(lines))
        yield from check_step(git.step(*_PLACE, stdin="placed", index=index))


def read_attributes_steps(git: Git, names: Iterable[bytes], *attributes: str) -> Steps[dict[bytes, dict[bytes, bytes]]]:
    """Path → those of the attributes that are in force for it."""
    write_file(git.file("names"), b"".join(name + b"\0" for name in names))
    yield from check_step(git.step("check-attr", "-z", "--stdin", *attributes, stdin="names", stdout="told"))
    words = read_file(git.file("told")).split(b"\0")
    found: dict[bytes, dict[bytes, bytes]] = {}
    for name, attribute, value in zip(words[::3], words[1::3], words[2::3], strict=False):
        if value not in _OFF:
            found.setdefault(name, {})[attribute] = value
    return found


def settle_forms_steps(
    git: Git, settings: Mapping[str, str], *, changed: Iterable[bytes], staged: Mapping[bytes, Entry]
) -> Steps[list[bytes]]:
    """Puts into our index, for each file that git would write exactly as it lies, what the user's own git has taken in
    or would; gives the files that have to be written as they are instead.

    `changed` are those that the commit below does not have like this, `staged` is what the user's index had.
    """
    yield from check_step(git.step(*_STAGED, stdout="staged"))
    told = read_file(git.file("staged"))
    if not _has_rules(git, settings, told):
        return []
    entries = parse_entries(told)
    _write_rules(git, converts=True)
    rules = yield from read_attributes_steps(git, entries, *_CONVERTING)
    _write_rules(git, converts=False)
    changed = set(changed)
    written = {name for name in entries if _converts_when_written(rules.get(name, {}), settings)}
    meant = [name for name in entries if name in written or (name in changed and _is_converted(name, rules, settings))]
    # A filter is a program of the user's: what it would make of a file is not known, unless it did so already.
    filtered = [name for name in meant if b"filter" in rules.get(name, {})]
    as_is = [name for name in filtered if name in changed and entries[name] != staged.get(name)]
    plain = [name for name in meant if b"filter" not in rules.get(name, {})]
    forms = {name: _keep_mode(staged[name], entries[name]) for name in plain if name in staged}
    forms = {name: forms[name] for name in (yield from _find_same_steps(git, forms))}
    others = yield from _convert_steps(git, [name for name in plain if name not in forms], rules)
    forms |= {name: others[name] for name in (yield from _find_same_steps(git, others))}
    yield from place_entries_steps(git, {name: form for name, form in forms.items() if form != entries[name]})
    return sorted([*as_is, *(name for name in plain if name not in forms)])


def _find_same_steps(git: Git, forms: Mapping[bytes, Entry]) -> Steps[set[bytes]]:
    """Those of the files that are, byte for byte, what git writes for these entries by the rules of the user."""
    if not forms:
        return set()
    _write_rules(git, converts=True)
    remove_file(git.file("forms"))
    yield from place_entries_steps(git, forms, index="forms")
    write_file(git.file("names"), b"".join(name + b"\0" for name in forms))
    place = git.file("written-forms") + "/"
    out = ("checkout-index", "--force", "--quiet", f"--prefix={place}", "-z", "--stdin")
    yield from check_step(git.step(*out, stdin="names", index="forms"))
    _write_rules(git, converts=False)
    same: set[bytes] = set()
    for number, name in enumerate(forms):
        if number % _YIELD_EVERY == 0:
            yield None
        if _is_same_file(os.path.join(os.fsencode(place), name), os.path.join(os.fsencode(git.top), name)):
            same.add(name)
    return same


def write_as_is_steps(git: Git, commit: str, names: Sequence[bytes]) -> Steps[None]:
    """Writes these files of a commit into the work tree, with nothing converted."""
    _write_rules(git, converts=False)
    remove_file(git.file("wanted"))
    yield from check_step(git.step("read-tree", commit, index="wanted"))
    write_file(git.file("names"), b"".join(name + b"\0" for name in names))
    out = ("checkout-index", "--force", "--quiet", "-z", "--stdin")
    yield from check_step(git.step(*out, stdin="names", index="wanted"))


def _write_rules(git: Git, *, converts: bool) -> None:
    """The repository's rules that are in no work tree, and above them our own."""
    users = read_file(_users_rules(git)) if os.path.exists(_users_rules(git)) else b""
    write_file(os.path.join(git.git_dir, _RULES), users + (b"" if converts else _NO_CONVERSION))


def _users_rules(git: Git) -> str:
    return os.path.join(git.git_dir, _USERS_RULES)


def _find_converted_steps(git: Git, entries: Mapping[bytes, Entry]) -> Steps[set[bytes]]:
    """The files whose content in the index was converted: each conversion of git's but one changes the size, too."""
    names = list(entries)
    write_file(git.file("names"), b"".join(entries[name].object + b"\n" for name in names))
    yield from check_step(git.step("cat-file", "--batch-check=%(objectsize)", stdin="names", stdout="sizes"))
    sizes = read_file(git.file("sizes")).split(b"\n")
    top = os.fsencode(git.top)
    found: set[bytes] = set()
    for number, (name, size) in enumerate(zip(names, sizes, strict=False)):
        if number % _YIELD_EVERY == 0:
            yield None
        if _read_size(os.path.join(top, name)) not in (None, size):
            found.add(name)
    asked = names if _may_have_encodings(git, names) else found
    rules = yield from read_attributes_steps(git, asked, "working-tree-encoding", "filter")
    encoded = {name for name, each in rules.items() if b"working-tree-encoding" in each}
    return {name for name in found | encoded if b"filter" not in rules.get(name, {})}


def _may_have_encodings(git: Git, names: Iterable[bytes]) -> bool:
    """Whether a file of rules names an encoding, or one is elsewhere: few do, and asking for each file takes long."""
    top, name = os.fsencode(git.top), _ATTRIBUTES.encode()
    files = [os.path.join(top, each) for each in (name, *names) if each == name or each.endswith(b"/" + name)]
    files.append(os.fsencode(_users_rules(git)))
    if b"attributesfile" in read_file(os.path.join(git.git_dir, "config")):
        return True
    return any(b"working-tree-encoding" in read_file(os.fsdecode(path)) for path in files if os.path.isfile(path))


def _read_size(path: bytes) -> bytes | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return b"%d" % found.st_size if stat.S_ISREG(found.st_mode) else None


def _is_converted(name: bytes, rules: Mapping[bytes, Attributes], settings: Mapping[str, str]) -> bool:
    return bool(rules.get(name)) or "core.autocrlf" in settings


def _converts_when_written(rules: Attributes, settings: Mapping[str, str]) -> bool:
    """Whether git may write other bytes for a file than it has stored."""
    crlf = settings.get("core.autocrlf", "").lower() not in ("", "false", "0", "no", "off", "input")
    if crlf or settings.get("core.eol", "").lower() == "crlf":
        return True
    return rules.get(b"eol") == b"crlf" or b"ident" in rules or b"working-tree-encoding" in rules


def _convert_steps(git: Git, names: Sequence[bytes], rules: Mapping[bytes, Attributes]) -> Steps[dict[bytes, Entry]]:
    """What the user's own git would take in for these files; nothing for those that it refuses."""
    encoded = {name for name in names if b"working-tree-encoding" in rules.get(name, {})}
    remove_file(git.file("taken-in"))
    _write_rules(git, converts=True)
    for group in ([name for name in names if name not in encoded], sorted(encoded)):
        if group:
            write_file(git.file("names"), b"".join(name + b"\0" for name in group))
            # Only an encoding can be refused; what cannot be taken in is then kept as it lies, with all of its kind.
            yield git.step(*_UPDATE, stdin="names", index="taken-in")
    _write_rules(git, converts=False)
    if not os.path.exists(git.file("taken-in")):
        return {}
    yield from check_step(git.step(*_STAGED, stdout="staged", index="taken-in"))
    return parse_entries(read_file(git.file("staged")))


def _keep_mode(form: Entry, entry: Entry) -> Entry:
    return form._replace(mode=entry.mode)


def _is_same_file(one: bytes, other: bytes) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False
