"""A task as a small graph of nodes: commands, agents, checks and people, each begun once what it needs is there."""

from typing import Any

import msgspec


class _Node(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"
):
    """What all nodes have in common.

    A node begins once those in `after`, and those whose outputs it uses, have ended. With `when` it is skipped unless
    that output holds something, with `unless` if it does. `outputs` are the names under which others find what it came
    to; without any, its usual one has the name of the node. One that fails ends what needs it, unless it is
    `allow_failure`. `timeout` is a duration, as `10m` or in seconds.
    """

    after: tuple[str, ...] = ()
    when: str = ""
    unless: str = ""
    outputs: dict[str, str] = {}
    allow_failure: bool = False
    timeout: str | float = ""


class CommandNode(_Node, frozen=True, kw_only=True, tag="command"):
    """A command of the shell. Values come to it by `env` alone: `run` takes none, but may be one input as a whole. It
    works where the agent of the node `where` did, and is confined by `sandbox` and `net` as an agent would be."""

    run: str
    env: dict[str, str] = {}
    where: str = ""
    sandbox: str = ""
    net: str = ""


class CheckNode(CommandNode, frozen=True, kw_only=True, tag="check"):
    """A command that says whether something is as it should be: exit code 0 is yes."""


class AgentNode(_Node, frozen=True, kw_only=True, tag="agent"):
    """A task for an agent; what is empty is as the blueprint was started, or as the configuration says.

    It is a loop of its own: started again at most `max_restarts` times until it completed, its `checks` pass and the
    agent `verify` agrees; the `agents` behind the first take over while one is rate limited. With `schema`, a JSON
    Schema, the answer of the mode `complete` is data. `resume` goes on with the session of that node, `where` works
    where that node did. `budget` is for each of its runs.
    """

    prompt: str
    agent: str = ""
    agents: tuple[str, ...] = ()
    mode: str = ""
    model: str = ""
    effort: str = ""
    channel: str = ""
    schema: dict[str, Any] | None = None
    checks: tuple[str, ...] = ()
    verify: str = ""
    max_restarts: int = 0
    resume: str = ""
    where: str = ""
    sandbox: str = ""
    net: str = ""
    read: tuple[str, ...] = ()
    budget: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    max_turns: int | None = None


class PersonNode(_Node, frozen=True, kw_only=True, tag="person"):
    """Waits for what a person answers: `inspan approvals` shows the question. Whoever denies it fails the node."""

    question: str
    options: tuple[str, ...] = ()


class ApplyNode(_Node, frozen=True, kw_only=True, tag="apply"):
    """Brings the changes of an agent that worked in a worktree of its own into the folder of the blueprint. `of` is the
    node, or an output that holds its name."""

    of: str


Node = CommandNode | CheckNode | AgentNode | PersonNode | ApplyNode


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that whoever starts the blueprint gives; without a `default`, it must be given."""

    about: str = ""
    default: str | None = None


class Repeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part that is run again, all of it, until the check `until` passes; at most `rounds` times. What a node of the
    part came to in the round before is `previous.NAME`, empty in the first."""

    nodes: tuple[str, ...]
    until: str
    rounds: int = 3


class Blueprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The whole graph. `budget` is for all of its runs together."""

    nodes: dict[str, Node]
    name: str = ""
    about: str = ""
    inputs: dict[str, Input] = {}
    loops: dict[str, Repeat] = {}
    budget: tuple[str, ...] = ()
    timeout: str | float = ""
