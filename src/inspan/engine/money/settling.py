"""What a model call that has ended costs its budgets, and what its row in the ledger says.

The two are not always the same: budgets must stay safe, and sums must stay honest.

| the call | budgets count | the row says |
|---|---|---|
| came to its end with a usage | that | that |
| broke off with a usage | that, its output at least as large as the bytes that came suggest | what was stated |
| was answered with an error, or reached nobody | nothing | nothing |
| has no usage, whether it broke off or not | the estimated input, and the output that came by its bytes | unknown |
"""

from typing import NamedTuple

import msgspec

from inspan.gateway.call import ModelCall
from inspan.protocol.usage import Usage

from .estimates import Estimate, tokens_in

_ERROR_STATUS = 400


class Settlement(NamedTuple):
    """`stated` is None where nobody could tell; `charged` is what budgets count."""

    stated: Usage | None
    charged: Usage


def settlement(call: ModelCall, estimate: Estimate) -> Settlement:
    """After the table above."""
    if call.usage is None and _costs_nothing(call):
        return Settlement(Usage(), Usage())
    if call.usage and call.whole:
        return Settlement(call.usage, call.usage)
    known = call.usage or Usage(input=estimate.input)
    came = min(tokens_in(call.answer_bytes), estimate.output)
    return Settlement(call.usage, msgspec.structs.replace(known, output=max(known.output, came)))


def _costs_nothing(call: ModelCall) -> bool:
    is_error = call.status is not None and call.status >= _ERROR_STATUS
    return is_error or call.problem.startswith("unreachable")
