"""What a loop says to its agents: the task, what is missing, and how to say that it is done."""

import re

from inspan.folds.loop import Attempt, LoopState
from inspan.protocol.events import CheckEnded
from inspan.protocol.loop import LoopPolicy

from .decide import DONE_FILE, Start

_MOST_OUTPUT = 6000
_CUT = re.compile(r"\[… \d+ characters left out …\]")
_MOST_ANSWER = 3000
_MOST_FILES = 50
_DONE = (
    "When the whole task is done, and only then, write the word {nonce} into the file {path}: "
    "that ends your work. Do not mention the word anywhere else."
)
_VERIFY = """Another agent says that it has done the task below. Find out whether that is true: read the files, look at
what was changed, run what shows whether it works. Change nothing.

End your answer with one line of its own, exactly one of these two:
{nonce} DONE
{nonce} NOT DONE

Where it is not done, say before that line what is missing, as precisely as you can: it goes to that agent.

The task:

{prompt}
"""


def build_prompt(
    task_prompt: str, policy: LoopPolicy, state: LoopState, start: Start, *, done_path: str, answer: str = ""
) -> str:
    """What is said to the agent of an attempt; `answer` is the last that another one said, who hands over to it."""
    missing = describe_missing(state.last)
    told = f"{missing}\n\n" if missing else ""
    done = _DONE.format(nonce=policy.nonce, path=done_path) if policy.until == "done_file" else ""
    if start.resumes:
        words = f"{told}The task is not done yet. Go on with it."
    elif start.handed_over:
        told = _describe_left(state, answer) + told
        words = f"{task_prompt}\n\nAnother agent has begun this: look at what is there already. {told}Go on from there."
    elif state.last:
        words = f"{task_prompt}\n\nAn earlier attempt did not do it. {told}Look at what is there already."
    else:
        words = task_prompt
    return "\n\n".join(filter(None, (words, done)))


def _describe_left(state: LoopState, answer: str) -> str:
    """What was done so far, for an agent that takes over: the changed files, and what was said last."""
    ended = [attempt.ended for attempt in state.attempts if attempt.ended]
    files = list(dict.fromkeys(path.replace("\n", " ") for each in ended for path in each.files_changed))
    more = f", and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    changed = f"Changed so far: {', '.join(files[:_MOST_FILES])}{more}.\n\n" if files else ""
    said = f"It said last:\n{_fence(answer.strip(), most=_MOST_ANSWER)}\n\n" if answer.strip() else ""
    return changed + said


def build_verifier_prompt(task_prompt: str, policy: LoopPolicy) -> str:
    """What is said to the agent that verifies."""
    return _VERIFY.format(nonce=policy.nonce, prompt=task_prompt)


def read_verdict(answer: str, policy: LoopPolicy) -> tuple[bool | None, str]:
    """What the verifier said, and why; `None` where its last line with the loop's own word is none of the two."""
    marks = list(re.finditer(rf"^\W*{re.escape(policy.nonce)} (NOT DONE|DONE)\W*$", answer, re.MULTILINE))
    if not marks:
        return None, answer.strip()
    return marks[-1][1] == "DONE", answer[: marks[-1].start()].strip()


def describe_missing(attempt: Attempt | None) -> str:
    """What the last attempt lacked, for whoever makes the next."""
    if attempt is None or attempt.ended is None:
        return ""
    if check := attempt.failed_check:
        return _describe_check(check)
    if (verdict := attempt.verdict) and verdict.agreed is False:
        return f"{verdict.agent} looked at the work and says that it is not done:\n\n{cut_middle(verdict.text)}"
    if attempt.ended.reason in ("done", "rate_limit"):
        return ""
    return f"The last attempt ended early ({attempt.ended.reason}): {attempt.ended.message}".rstrip(": ")


def name_check(command: str) -> str:
    """What a check is called: the command, or the comment that it begins with, where the rest is nobody's to see."""
    first, newline, _ = command.partition("\n")
    return first.removeprefix("#").strip() if newline and first.startswith("# ") else command


def cut_middle(text: str, *, most: int = _MOST_OUTPUT, missing: int = 0) -> str:
    """A long text by its beginning and, more of it, by its end, where errors stand; so many more characters as are
    `missing` in its middle were left out before."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 4], text[-(most - most // 4) :]
    return f"{head}\n[… {len(text) - most + missing} characters left out …]\n{tail}"


def is_cut(text: str) -> bool:
    """Whether something was left out of a text in this way."""
    return _CUT.search(text) is not None


def _describe_check(check: CheckEnded) -> str:
    if check.check == DONE_FILE:
        return f"The file that says that the task is done is not there, or says something else: {check.output}"
    name = name_check(check.check)
    how = "took too long" if check.timed_out else f"failed with exit code {check.exit_code}"
    if not check.output.strip():
        return f"The check `{name}` {how}, and printed nothing."
    return f"The check `{name}` {how}:\n{_fence(check.output.strip())}"


def _fence(text: str, *, most: int = _MOST_OUTPUT) -> str:
    """A text that may hold anything, cut, between fences that are longer than any in it."""
    fence = "`" * (1 + max(2, 2, *(len(each) for each in re.findall("`+", text))))
    return f"{fence}\n{cut_middle(text, most=most)}\n{fence}"
