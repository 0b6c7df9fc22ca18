"""`python -m bench.run [names…]`: every topic of this folder in turn, a table on stdout, `results.json` beside it.

A topic is a module here with `measure(*, quick) -> rows`; the names are those of topics. Without names, all are meant
but for those that are measured only by name.
"""

import argparse
import json
import os
import platform
import sys
import time
import traceback
from datetime import UTC, datetime
from importlib import import_module, metadata
from typing import Any

from bench.stage.rows import Row

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_RESULTS = os.path.join(_FOLDER, "results.json")
_NO_TOPICS = frozenset({"__init__", "run"})
_ONLY_BY_NAME = frozenset({"matrix"})  # It takes many minutes.
_VERSIONS = ("inspan", "claude-agent-sdk", "anyio", "msgspec", "ahocorasick_rs", "hyperscan", "click")
_HEADS = ("figure", "ours", "peer", "ratio", "bar", "", "unit", "note")


def main() -> int:
    """Prints and writes the figures, each topic's as it ends; the table says which bar was missed."""
    arguments = _arguments()
    rows: list[Row] = []
    failed: list[str] = []
    for topic in _topics(arguments.names):
        started = time.monotonic()
        try:
            measured = import_module(f"bench.{topic}").measure(quick=arguments.quick)
        except Exception:  # The others' figures are worth having.
            traceback.print_exc()
            failed.append(topic)
            continue
        if not arguments.quick:
            _write(measured)
        rows += measured
        print(f"{topic}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(_table(rows))
    if failed:
        print(f"could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Measures what inspan costs.")
    parser.add_argument("names", nargs="*", help=f"only these topics: {', '.join(_known())}")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few rounds, and no results.json")
    return parser.parse_args()


def _topics(names: list[str]) -> list[str]:
    known = _known()
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such topic: {', '.join(unknown)}; there are {', '.join(known)}")
    return names or [name for name in known if name not in _ONLY_BY_NAME]


def _known() -> list[str]:
    found = {entry.removesuffix(".py") for entry in os.listdir(_FOLDER) if entry.endswith(".py")}
    return sorted(found - _NO_TOPICS)


def _table(rows: list[Row]) -> str:
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADS))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def _cells(row: Row) -> tuple[str, ...]:
    bar = row.get("bar")
    verdict = {True: "ok", False: "MISSED", None: ""}[row.get("met")]
    figures = [_number(row[name]) for name in ("ours", "peer", "ratio")]
    return (row["name"], *figures, "" if bar is None else f"<= {bar:g}", verdict, row["unit"], row["note"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _write(rows: list[Row]) -> None:
    """Rows of topics that were not measured this time stay as they were."""
    kept = {row["name"]: row for row in _before()}
    kept |= {row["name"]: row for row in rows}
    with open(_RESULTS, "w", encoding="utf-8") as file:
        json.dump({"machine": _machine(), "rows": list(kept.values())}, file, indent=2, ensure_ascii=False)
        file.write("\n")


def _before() -> list[Row]:
    try:
        with open(_RESULTS, encoding="utf-8") as file:
            return json.load(file)["rows"]
    except (OSError, ValueError, KeyError):
        return []


def _machine() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
        "load": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in _VERSIONS},
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())
