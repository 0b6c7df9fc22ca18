"""Going on with a session of Goose: how one is named, and what has to happen before its program can."""

import re

_OWN_ID = re.compile(r"\d{8}_\d+")
# Before it goes on (1.52), with the session's options, a file, the name of a copy or nothing, and the words of the run:
# - A copy is a session that was printed, given another name and read in again: its run knows no other.
# - It goes on counting tokens where it left off, also after a turn that broke off: a frame of ours tells from where.
# - Servers of tools that the session has come back by themselves, and to name one of them again is an error.
RESUME_SCRIPT = """\
program=$0 session=$1 saved=$2 copy=$3
shift 3
umask 077
trap 'rm -f "$saved" "$saved.copy"' EXIT
"$program" session export --format json --output "$saved" "$session" </dev/null >/dev/null || exit
if [ -n "$copy" ]; then
  sed '1,/^  "name": /s/^  "name": .*/  "name": "'"$copy"'",/' "$saved" >"$saved.copy" &&
  "$program" session import "$saved.copy" </dev/null >/dev/null || exit
fi
totals='/^  "accumulated_usage": {$/,/^  }/p; /^  "accumulated_cost": /p'
printf '{"type":"before",%s"of":"session"}\\n' "$(sed -n "$totals" "$saved" | tr -d '\\n')"
left=$#
while [ "$left" -gt 0 ]; do
  word=$1 left=$((left - 1))
  shift
  if [ "$word" = --with-extension ] && grep -q '^          "name": "'"${1%%:*}"'",$' "$saved"; then
    left=$((left - 1))
    shift
  else
    set -- "$@" "$word"
  fi
done
rm -f "$saved" "$saved.copy"
exec "$program" "$@"
"""


def is_goose_id(session_id: str) -> bool:
    """Whether this is an id of Goose's own: inspan gives names."""
    return bool(_OWN_ID.fullmatch(session_id))


def export_argv(session_id: str) -> tuple[str, ...]:
    """The words that make the program print a session."""
    return ("session", "export", "--format", "json", *session_argv(session_id))


def session_argv(session_id: str) -> tuple[str, ...]:
    """The option that means this session, by Goose's own id or by the name that it was given."""
    return (f"--session-id={session_id}",) if is_goose_id(session_id) else (f"--name={session_id}",)
