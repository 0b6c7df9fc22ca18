"""Names of runs, and how a new one is made."""

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

RunId = NewType("RunId", str)

RUN_ID = re.compile(r"\d{8}-\d{9}-\d+")


def make_run_id(*, at: datetime, pid: int, bump_ms: int = 0) -> RunId:
    """`{YYYYMMDD-HHMMSSmmm}-{PID}` in UTC; `bump_ms` moves the millisecond when the first choice is taken."""
    moment = at.astimezone(UTC) + timedelta(milliseconds=bump_ms)
    return RunId(f"{moment:%Y%m%d-%H%M%S}{moment.microsecond // 1000:03d}-{pid}")
