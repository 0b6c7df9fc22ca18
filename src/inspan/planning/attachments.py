"""Images and files that go with a prompt: checked before anything starts, handed over in the way the agent takes."""

import os

from inspan.contracts.driver import Attachment, Driver
from inspan.errors import BadInput, Unsupported
from inspan.protocol.task import Task

LARGEST_BYTES = 10_000_000
_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
_TEXT = "text/plain"
# How the files of each kind begin: a wrong ending would reach the provider and fail there.
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "application/pdf": (b"%PDF-",),
}


def load_attachments(task: Task, driver: Driver) -> tuple[tuple[Attachment, ...], str]:
    """What the agent takes as it is, and the text of all other files, to stand in the prompt.

    Raises `BadInput` for a file that is missing, too large or not what its name says, and `Unsupported` for one that
    this agent has no way to take.
    """
    given = [_read_attachment(path, task.cwd) for path in task.attachments]
    taken = tuple(each for each in given if each.media_type in driver.capabilities.attachments)
    rest = [each for each in given if each.media_type not in driver.capabilities.attachments]
    return taken, "\n\n".join(_inline_text(each, driver) for each in rest)


def _read_attachment(path: str, cwd: str) -> Attachment:
    path = os.path.join(cwd, os.path.expanduser(path))
    problem = _find_problem(path)
    if problem:
        raise BadInput("attachments", path, problem, next_step=f"Give a file of at most {LARGEST_BYTES // 10**6} MB.")
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise BadInput("attachments", path, f"{error.strerror}.", next_step="Give a file that can be read.") from error
    media_type = _MEDIA_TYPES.get(os.path.splitext(path)[1].lower(), _TEXT)
    if media_type != _TEXT and not data.startswith(_SIGNATURES[media_type]):
        raise BadInput("attachments", path, f"its content is no {media_type}.", next_step="Check the file.")
    return Attachment(path=path, media_type=media_type, data=data)


def _find_problem(path: str) -> str:
    if not os.path.exists(path):
        return "no such file."
    if not os.path.isfile(path):
        return "it is not a file."
    if os.path.getsize(path) > LARGEST_BYTES:
        return f"{os.path.getsize(path) / 1e6:.1f} MB is too large."
    return ""


def _inline_text(attachment: Attachment, driver: Driver) -> str:
    try:
        text = attachment.data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if attachment.media_type != _TEXT or "\0" in text:
        kind = attachment.media_type if attachment.media_type != _TEXT else "such files"
        raise Unsupported(
            "attachments",
            attachment.path,
            f"{driver.title} does not take {kind}.",
            next_step="Attach text or what `inspan agents --json` lists for it, or name the path in the prompt.",
        )
    return f"The file {attachment.path}:\n{text}"
