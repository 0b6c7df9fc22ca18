"""`TASK.md`: what agents are told, for themselves and for people, in the folder that all runs of a task share.

Agents write in that folder: what lies in the place of the file is never followed, waited for, or read without end.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from inspan.errors import BadInput
from inspan.stores.paths import make_private_folder, state_error
from inspan.stores.run_folder import RunFolder, find_task_files
from inspan.system.atomic_file import replace_file
from inspan.system.plain_file import read_plain_file

from .decide import DONE_FILE

_TASK_FILE = "TASK.md"
_PROMPT_FILE = "prompt.md"
_MOST_BYTES = 16 * 1024 * 1024


def write_task_file(folder: RunFolder, text: str, *, keep: bool) -> tuple[str, ...]:
    """Says what the work in `folder` is about, unless it goes on with other work that has said so, which is to `keep`.

    What somebody else wrote there is kept beside it, as `TASK-before-RUN.md`; gives a warning where that is no text
    file. Raises `BadInput` or `StateUnusable`.
    """
    files = make_private_folder(find_task_files(folder))
    if os.path.isdir(done := os.path.join(files, DONE_FILE)):
        raise BadInput("DONE", done, "it is a folder.", next_step="Remove it, or give the loop another --task.")
    path, data = os.path.join(files, _TASK_FILE), text.encode(errors="surrogateescape")
    if keep and os.path.lexists(path):
        return ()
    aside = os.path.join(files, f"TASK-before-{folder.run_id}.md")
    try:
        warnings = tuple(_clear(path, (data, *_list_prompts(folder)), aside=aside))
        replace_file(path, data)
    except OSError as error:
        raise state_error(path, error) from error
    return warnings


def _clear(path: str, known: Iterable[bytes], *, aside: str) -> Iterator[str]:
    """Puts aside what lies in the place of the file, unless it is one of the texts that were written there before."""
    if not os.path.lexists(path):
        return
    try:
        if _read(path) in known:
            return
    except OSError as error:
        yield f"what lay in the place of {path} was put aside, as {os.path.basename(aside)}: {error.strerror}"
    os.rename(path, aside)


def _list_prompts(folder: RunFolder) -> Iterator[bytes]:
    """What earlier work of this task was told, the newest first."""
    runs = os.path.dirname(folder.path)
    for name in sorted(os.listdir(runs), reverse=True):
        with suppress(OSError):
            yield _read(os.path.join(runs, name, _PROMPT_FILE))


def _read(path: str) -> bytes:
    return read_plain_file(path, most_bytes=_MOST_BYTES)
