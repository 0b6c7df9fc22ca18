"""Which of an agent's calls do its work, which are asked on the side, and which are sent again."""

from inspan.gateway.call import ModelCall, Role
from inspan.gateway.upstream import Ask

_ANSWERED = 200
_Thread = tuple[str, int, str]


class Roles:
    """Tells the calls of one run apart.

    Sent again: the same words to the same model at the same length of the conversation as a call that failed. Headers
    and bodies do not tell: agents count no attempts, and some ask for another kind of answer the second time.
    On the side: no tool of the agent's own on offer by an agent that has some (it sums up a page, a conversation), or,
    where it has none, a model that is not the first call's.
    """

    def __init__(self, *, expects_tools: bool) -> None:
        self._expects_tools = expects_tools
        self._first_model = ""
        self._threads: dict[int, _Thread] = {}
        self._failed: set[_Thread] = set()

    def of(self, ask: Ask, number: int) -> Role:
        """The role of the call with this number."""
        self._threads[number] = thread = (ask.model, ask.turns, ask.newest_text)
        if thread in self._failed:
            return "retry"
        return "side" if self._is_aside(ask) else "main"

    def ended(self, call: ModelCall) -> None:
        """Remembers what failed: the same may be asked again, until it is answered."""
        thread = self._threads.pop(call.number, None)
        if thread is None:
            return
        # A cut of ours is one for the agent, though all of the answer has been read here.
        if not call.whole or call.status != _ANSWERED or call.message or call.problem:
            self._failed.add(thread)
        else:
            self._failed.discard(thread)

    def _is_aside(self, ask: Ask) -> bool:
        if self._expects_tools:
            return not any(tool.fields or tool.kind == "custom" for tool in ask.tools)
        self._first_model = self._first_model or ask.model
        return ask.model != self._first_model
