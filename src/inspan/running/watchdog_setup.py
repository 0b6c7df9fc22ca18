"""The watchdog of a run, as its plan wants it."""

from inspan.folds.live_state import LiveStateFold
from inspan.folds.silence import SilenceFold
from inspan.protocol.limits import WatchdogLimits
from inspan.protocol.plan import Plan
from inspan.redaction import Gate, SecretSet

from .watchdog import Ask, Watchdog, WatchdogHost


def build_watchdog(plan: Plan, host: WatchdogHost, *, secrets: SecretSet) -> Watchdog:
    """Watches the run of this plan; it has to be armed."""
    state = LiveStateFold(stays_open=plan.task.session, prompted=bool(plan.task.prompt))
    last = SilenceFold(redact=secrets.redact_text, keeps=plan.triage is not None)
    limits = plan.task.watchdog or WatchdogLimits()
    return Watchdog(limits, host, state=state, last=last, ask=_build_ask(plan, last, secrets))


def _build_ask(plan: Plan, last: SilenceFold, secrets: SecretSet) -> Ask | None:
    if plan.triage is None:
        return None
    from .triage import Triage  # Start-up time: few runs are triaged.

    encode = Gate(secrets).encode_event
    return Triage(plan.triage, redact=secrets.redact_text, encode=encode, describe=last.describe_events).ask
