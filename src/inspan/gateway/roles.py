"""Which of an agent's calls do its work, which are asked on the side, and which are sent again."""

from collections.abc import Callable

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
        self._under_way: dict[int, tuple[_Thread, Callable[[], bool]]] = {}
        self._failed: set[_Thread] = set()

    def of(self, ask: Ask, number: int, *, is_left: Callable[[], bool]) -> Role:
        """The role of the call with this number; `is_left` tells whether the agent has hung up on it."""
        thread = (ask.model, ask.turns, ask.newest_text)
        self._give_up(thread)
        self._under_way[number] = thread, is_left
        if thread in self._failed:
            return "retry"
        return "side" if self._is_aside(ask) else "main"

    def ended(self, call: ModelCall) -> None:
        """Remembers what failed: the same may be asked again, until it is answered."""
        if call.number not in self._under_way:
            return
        thread, _ = self._under_way.pop(call.number)
        # A cut of ours is one for the agent, though all of the answer has been read here.
        if not call.whole or call.status != _ANSWERED or call.message or call.problem:
            self._failed.add(thread)
        else:
            self._failed.discard(thread)

    def _give_up(self, thread: _Thread) -> None:
        """Calls that the agent has left have failed for it, also while the rest of their answer is being read here."""
        for number in [number for number, (its, is_left) in self._under_way.items() if its == thread and is_left()]:
            del self._under_way[number]
            self._failed.add(thread)

    def _is_aside(self, ask: Ask) -> bool:
        if self._expects_tools:
            return not ask.has_tools
        self._first_model = self._first_model or ask.model
        return ask.model != self._first_model
