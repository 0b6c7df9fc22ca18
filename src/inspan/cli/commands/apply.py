"""Bring a run's changes in: again after `inspan undo`, or from its worktree."""

import click

from inspan.cli.undo_changes import add_options, change_files


@click.command()
@add_options
def command(run: str, paths: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> int:
    """Bring a run's changes in: again, in its work tree, wherever you are, after `inspan undo` took them back; or, of
    a run with a worktree of its own, into the checkout that this was made from.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere; PATHS
    are as in `inspan diff`. What will happen is shown first and you are asked. If a file is not as the run found it,
    nothing is changed.
    """
    return change_files(run, paths, direction="apply", dry_run=dry_run, yes=yes, as_json=as_json)
