"""What is wanted, in words that know no agent."""

from typing import Literal

import msgspec

from .limits import Limits

Mode = Literal["exec"]
Profile = Literal["user", "clean"]


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One piece of work for one agent. `agent` empty means the default agent; `cwd` must be absolute."""

    prompt: str
    cwd: str
    agent: str = ""
    mode: Mode = "exec"
    model: str = ""
    project: str = ""
    task: str = "default"
    profile: Profile = "user"
    sandbox: str = ""
    model_from: str = ""
    partial: bool = False
    limits: Limits = Limits()
    env: dict[str, str] = {}
