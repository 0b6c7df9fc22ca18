"""Which of an agent's calls do its work, which are asked on the side, and which are sent again."""

from collections.abc import Callable

from inspan.gateway.upstream import Ask

from .model_call import ModelCall, Role

_OK_STATUS = 200
_Thread = tuple[str, int, str]


class CallRoles:
    """Tells the calls of one run apart.

    Sent again: the same words to the same model at the same length of the conversation as a call that failed. Headers
    and bodies do not tell: agents count no attempts, and some ask for another kind of answer the second time.
    On the side: no tool of the agent's own on offer by an agent that has some (it sums up a page, a conversation), or,
    where it has none, a model that is not the first call's.
    """

    def __init__(self, *, expects_tools: bool) -> None:
        self._expects_tools = expects_tools
        self._first_model = ""
        self._pending: dict[int, tuple[_Thread, Callable[[], bool]]] = {}
        self._failed: set[_Thread] = set()

    def classify(self, ask: Ask, number: int, *, has_hung_up: Callable[[], bool]) -> Role:
        """The role of the call with this number; `has_hung_up` tells whether the agent has hung up on it."""
        thread = (ask.model, ask.turns, ask.newest_text)
        self._mark_abandoned(thread)
        self._pending[number] = thread, has_hung_up
        if thread in self._failed:
            return "retry"
        return "side" if self._is_side_call(ask) else "main"

    def on_ended(self, call: ModelCall) -> None:
        """Remembers what failed: the same may be asked again, until it is answered."""
        if call.number not in self._pending:
            return
        thread, _ = self._pending.pop(call.number)
        # A cut of ours is one for the agent, though all of the answer has been read here.
        if not call.whole or call.status != _OK_STATUS or call.message or call.problem:
            self._failed.add(thread)
        else:
            self._failed.discard(thread)

    def _mark_abandoned(self, thread: _Thread) -> None:
        """Calls that the agent has left have failed for it, also while the rest of their answer is being read here."""
        for number in [
            number for number, (its, has_hung_up) in self._pending.items() if its == thread and has_hung_up()
        ]:
            del self._pending[number]
            self._failed.add(thread)

    def _is_side_call(self, ask: Ask) -> bool:
        if self._expects_tools:
            return not ask.has_tools
        self._first_model = self._first_model or ask.model
        return ask.model != self._first_model
