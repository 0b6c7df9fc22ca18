"""What a model call that has ended costs its budgets, and what its row in the ledger says.

The two are not always the same: budgets must stay safe, and sums must stay honest.

| the call | budgets count | the row says |
|---|---|---|
| came to its end with a usage | that | that |
| broke off with a usage, or in an error | that, its output at least as large as its bytes suggest | what was stated |
| was answered with an error, or was never sent | nothing | nothing |
| has no usage, and some of a streamed answer came | the estimated input, and the output by its bytes | unknown |
| has no usage, and nothing came that tells its size | all that was estimated | unknown |

A call that was sent and that nobody heard of again is the last of these, whoever gave it up: the agent, the provider,
or a fault of the gateway.
"""

from typing import NamedTuple

import msgspec

from inspan.gateway.model_call import ModelCall
from inspan.protocol.http_status import is_error_status
from inspan.protocol.usage import Usage

from .estimates import Estimate, estimate_tokens

_NEVER_SENT = ("unreachable", "never sent")
# The status is then the gateway's own, and says nothing of what the provider did.
_NOBODY_ANSWERED = ("unanswered", "gateway broke")


class Settlement(NamedTuple):
    """`stated` is None where nobody could tell; `charged` is what budgets count, `None` for all that was estimated."""

    stated: Usage | None
    charged: Usage | None


def compute_settlement(call: ModelCall, estimate: Estimate, *, answer_bytes: int | None = None) -> Settlement:
    """After the table above. `answer_bytes`: as if so many had come, for a call that may have gone on unseen."""
    if call.usage is None and _costs_nothing(call):
        return Settlement(Usage(), Usage())
    if call.usage and call.whole:
        return Settlement(call.usage, call.usage)
    if call.usage is None and (not call.answer_bytes or not estimate.streams or _is_unanswered(call)):
        return Settlement(None, None)
    known = call.usage or Usage(input=estimate.input)
    came = min(estimate_tokens(call.answer_bytes if answer_bytes is None else answer_bytes), estimate.output)
    return Settlement(call.usage, msgspec.structs.replace(known, output=max(known.output, came)))


def _costs_nothing(call: ModelCall) -> bool:
    is_error = is_error_status(call.status)
    return call.problem.startswith(_NEVER_SENT) or (is_error and not _is_unanswered(call))


def _is_unanswered(call: ModelCall) -> bool:
    return call.problem.startswith(_NOBODY_ANSWERED)
