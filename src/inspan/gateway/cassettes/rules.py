"""What changes from run to run in the texts of a request, as a table of rules: each has a name and an example.

Texts that differ only in what a rule replaces are alike. What a person wrote is compared more strictly than what a tool
printed: rules for `results` leave a prompt as it is.
"""

import re
from dataclasses import dataclass
from functools import cache

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_LONG_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?"
_ZONE = r"(?: ?(?:Z\b|UTC|GMT|[A-Z]{2,3}T\b|[+-]\d{2}:?\d{2}))"
_UNIT = r"(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?|h|hours?)"
# What one rule leaves may be for another: rarely more than one round changes something.
_MAX_ROUNDS = 8
# Quotes of JSON inside JSON have backslashes before them.
_Q = r'\\{0,8}"?'
_BLOCKS = (
    "system-reminder",
    "environment_context",
    "user_instructions",
    "INSTRUCTIONS",
    "permissions instructions",
    "skills_instructions",
    "apps_instructions",
    "plugins_instructions",
    "collaboration_mode",
    "multi_agent_mode",
    "multi_agent_role",
    "model_switch",
    "personality_spec",
    "session_context",
    "local-command-caveat",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """`pattern` becomes `replacement`; `example` is such a text, and `example_result` what is left of it.

    What is called `id` in a pattern is a name that a model may use later on (see `volatile_ids.py`). A text that has
    none of the `hints`, in small letters, is not searched: most texts have few.
    """

    name: str
    description: str
    pattern: str
    replacement: str
    example: str
    example_result: str
    results_only: bool = False
    hints: tuple[str, ...] = ("",)


RULES: tuple[Rule, ...] = (
    Rule(
        name="preamble",
        description="blocks that agents put before or behind a text: " + ", ".join(f"`<{name}>`" for name in _BLOCKS),
        pattern=r"(?s)(?:# AGENTS\.md instructions[^\n<]{0,4096}+\s*+)?"
        rf"<(?P<block>{'|'.join(_BLOCKS)})>(?:(?!<(?P=block)>).)*?</(?P=block)>\s*",
        replacement="\n",
        example="<system-reminder>Today is Sunday.</system-reminder>do it",
        example_result="do it",
        hints=tuple(f"</{name.lower()}>" for name in _BLOCKS),
    ),
    Rule(
        name="newline",
        description="a newline, a return or a tab as JSON inside a text spells it",
        pattern=r"\\{1,8}[nrt]",
        replacement="\n",
        example=r'{"output":"a\nb"}',
        example_result='{"output":"a\nb"}',
        results_only=True,
        hints=("\\",),
    ),
    Rule(
        name="subagent",
        description="the id of a subagent, and what it used",
        pattern=r"(?s)agentId: (?P<id>\w+)[^\n]*|<usage>.*?</usage>|(?<=<task-id>)\w+|(?<=<tool-use-id>)\w+",
        replacement="<id>",
        example="agentId: q7 (send a message to continue)",
        example_result="<id>",
        results_only=True,
        hints=("agentid", "</usage>", "<task-id>", "<tool-use-id>"),
    ),
    Rule(
        name="date and time",
        description="a date with a time, as programs print it",
        pattern=rf"\b\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}{_ZONE}?"
        rf"|\b{_DAY},? +(?:{_MONTH} +\d{{1,2}}|\d{{1,2}} {_MONTH}),?(?: \d{{4}})?,? +{_CLOCK}{_ZONE}?(?: \d{{4}})?"
        rf"|\b\d{{1,2}}/\d{{1,2}}/\d{{4}},? {_CLOCK}"
        rf"|\b{_MONTH} +\d{{1,2}} {_CLOCK}",
        replacement="<time>",
        example="Sun Nov 15 14:25:18 UTC 2026",
        example_result="<time>",
    ),
    Rule(
        name="date",
        description="a date",
        pattern=r"\b(?:19|20)\d{2}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])\b"
        r"|\b(?:19|20)\d{2}/(?:0\d|1[0-2])/(?:[0-2]\d|3[01])\b"
        rf"|\b(?:{_DAY}\w*, +)?(?:{_LONG_MONTH}|{_MONTH}) +\d{{1,2}},? +(?:19|20)\d{{2}}\b"
        rf"|\b\d{{1,2}} (?:{_LONG_MONTH}|{_MONTH}),? (?:19|20)\d{{2}}\b",
        replacement="<date>",
        example="released on 2026-11-15",
        example_result="released on <date>",
    ),
    Rule(
        name="UUID",
        description="a UUID",
        pattern=r"(?i)\b(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
        replacement="<uuid>",
        example="session 1d741f90-ce82-47e9-805d-4ae4fdb9b54b",
        example_result="session <uuid>",
        hints=("-",),
    ),
    Rule(
        name="tool call",
        description="an id that a provider gave to a call, a message or an answer",
        pattern=r"\b(?:toolu|call|msg|resp|rs|fco?|ctco?|req|chatcmpl)[_-](?=[A-Za-z]*\d)[A-Za-z0-9]{12,}\b",
        replacement="<id>",
        example="toolu_4c0f714e2a8a5675109ab122",
        example_result="<id>",
        hints=("_", "chatcmpl-"),
    ),
    Rule(
        name="chunk",
        description="the id of a piece of output",
        pattern=rf"(?i)\b(chunk[ _]id{_Q}:\s?{_Q})\w+",
        replacement=r"\1<id>",
        example="Chunk ID: 8cfe5a",
        example_result="Chunk ID: <id>",
        results_only=True,
        hints=("chunk",),
    ),
    Rule(
        name="process",
        description="the number of a process, of a session in a terminal, of a task in the background",
        pattern=r"(?i)\b((?:pid|process|session id|background with id)(?: is)?[:=]? "
        r"|(?:tasks|tool-results)/(?=\w+\.\w+\b))"
        r"(?P<id>(?=[a-z_]*\d)\w+)",
        replacement=r"\1<number>",
        example="Process running with session ID 41873",
        example_result="Process running with session ID <number>",
        results_only=True,
        hints=("pid", "process", "session id", "background", "tasks/", "tool-results/"),
    ),
    Rule(
        name="hexadecimal",
        description="seven hexadecimal digits or more, both figures and letters among them; an address in memory",
        pattern=r"\b(?P<id>0x[0-9A-Fa-f]{6,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,})\b",
        replacement="<hex>",
        example="[main 1f2e3d4] greet",
        example_result="[main <hex>] greet",
    ),
    Rule(
        name="port",
        description="a port of this machine",
        pattern=r"(127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):(?P<id>\d{2,5})\b",
        replacement=r"\1:<port>",
        example="http://127.0.0.1:41873/v1",
        example_result="http://127.0.0.1:<port>/v1",
        hints=("127.0.0.1:", "localhost:", "0.0.0.0:", "[::"),
    ),
    Rule(
        name="clock",
        description="a time of day",
        pattern=r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b",
        replacement="<time>",
        example="up since 14:25:18",
        example_result="up since <time>",
        results_only=True,
        hints=(":",),
    ),
    Rule(
        name="duration",
        description="how long something took",
        pattern=rf"(?i)\b((?:wall_time|duration|elapsed)\w*{_Q}[:=]\s?{_Q})\d+(?:\.\d+)?(?:e-?\d+)?"
        rf"|()\b(?:\d+m)?\d+(?:\.\d+)? ?{_UNIT}\b(?!-)",
        replacement=r"\1<duration>",
        example="4 passed in 0.12s, Wall time: 0.1611 seconds",
        example_result="4 passed in <duration>, Wall time: <duration>",
        results_only=True,
    ),
    Rule(
        name="count of tokens",
        description="how many tokens an output has, which depends on the length of paths",
        pattern=rf"(?i)\b(original[ _]token[ _]count{_Q}:\s?)\d+|(…)\d+(?= (?:tokens|chars) truncated)",
        replacement=r"\1\2<count>",
        example="Original token count: 45",
        example_result="Original token count: <count>",
        results_only=True,
        hints=("original", "truncated"),
    ),
    Rule(
        name="temporary name",
        description="a name that a program made up for a temporary file",
        pattern=r"\b(tmp\.)?(?P<id>(?(1)[A-Za-z0-9]{6,}|tmp(?=[a-z]*[0-9_])[a-z0-9_]{8}))\b",
        replacement="<temporary>",
        example="/var/tmp.Xw3kQz81Lm/log",
        example_result="/var/<temporary>/log",
        results_only=True,
        hints=("tmp",),
    ),
)
FOLDER_ROW = (
    "folder",
    "the run's own folders, by name; also as a path with dashes",
    "`/srv/project/a.py` → `{{cwd}}/a.py`",
    "all texts",
)


def normalize_text(text: str, *, is_result: bool, names: list[str] | None = None) -> str:
    """The text with everything replaced that a rule knows; doing it again changes nothing.

    The names that a model may use later on are added to `names`, in an order that depends on the rest alone.
    """
    for _ in range(_MAX_ROUNDS):
        before, small = text, text.lower()
        for rule, pattern in _compile_rules():
            if (is_result or not rule.results_only) and any(hint in small for hint in rule.hints):
                if names is not None and "id" in pattern.groupindex:
                    names += [found["id"] or "" for found in pattern.finditer(text)]
                text = pattern.sub(rule.replacement, text)
        text = text.strip()
        if text == before:
            break
    return text


def table_rows() -> list[tuple[str, str, str, str]]:
    """The table for the documents: name, what it replaces, an example, and the texts that it is used on."""
    listed = [
        (
            rule.name,
            rule.description,
            f"`{rule.example}` → `{rule.example_result}`".replace("\n", "⏎"),
            "results of tools" if rule.results_only else "all texts",
        )
        for rule in RULES
    ]
    return [FOLDER_ROW, *listed]


@cache
def _compile_rules() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in RULES)
