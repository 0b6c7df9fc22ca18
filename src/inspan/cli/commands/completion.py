"""Print or install shell completion and the manual pages."""

import os

import click
from click.shell_completion import ShellComplete, get_completion_class

from inspan.cli.output import print_json, print_words
from inspan.errors import HarnessFault

_VARIABLE = "_INSPAN_COMPLETE"
# In click's own scripts. A mistake, or an inspan that is gone, must not print into the user's prompt; and a
# description may hold a comma.
_CHANGES = {
    "bash": {"=bash_complete $1)": "=bash_complete $1 2>/dev/null)"},
    "zsh": {"=zsh_complete inspan)": "=zsh_complete inspan 2>/dev/null)"},
    "fish": {
        "(commandline -t) inspan)": "(commandline -t) inspan 2>/dev/null)",
        'string split ","': 'string split --max 1 ","',
    },
}
# Bash cuts a word at @, so that `@last` has to be put together before it is asked for.
_BASH = r"""
_inspan_words() {
    if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == @ && $COMP_WORDBREAKS == *@* ]]; then
        local -a words=("${COMP_WORDS[@]:0:COMP_CWORD - 1}" "@${COMP_WORDS[COMP_CWORD]}")
        local COMP_CWORD=$((COMP_CWORD - 1))
        local -a COMP_WORDS=("${words[@]}")
    fi
    _inspan_completion "$@"
}

complete -o nosort -F _inspan_words inspan
"""


@click.command()
@click.argument("shell", type=click.Choice(list(_CHANGES)), required=False)
@click.option("--install", is_flag=True, help="Write it, and the manual pages, to where your shell and man look.")
@click.option("--uninstall", is_flag=True, help="Delete what --install has written.")
@click.option("--dry-run", is_flag=True, help="Write and delete nothing, only say what would be.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(shell: str | None, install: bool, uninstall: bool, dry_run: bool, as_json: bool) -> None:
    """Print a script that completes commands, options, agents and runs in a shell; or install it.

    With --install or --uninstall, SHELL is the one of the variable SHELL where it is left out. Or by hand:

    \b
    bash: eval "$(inspan completion bash)"          in ~/.bashrc
    zsh:  eval "$(inspan completion zsh)"           in ~/.zshrc, after compinit
    fish: inspan completion fish | source           in ~/.config/fish/config.fish
    """
    if install and uninstall:
        raise click.UsageError("--install and --uninstall exclude each other.")
    if uninstall:
        _uninstall((shell,) if shell else tuple(_CHANGES), dry_run=dry_run, as_json=as_json)
    elif install:
        _install(shell or _find_shell(), dry_run=dry_run, as_json=as_json)
    elif shell is None:
        raise click.UsageError(f"Missing argument SHELL: one of {', '.join(_CHANGES)}.")
    elif as_json:
        print_json(shell=shell, script=build_script(shell))
    else:
        click.echo(build_script(shell), nl=False)


def _find_shell() -> str:
    name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in _CHANGES:
        raise click.UsageError(f"The variable SHELL is {name!r}. Name one of {', '.join(_CHANGES)}.")
    return name


def _install(shell: str, *, dry_run: bool, as_json: bool) -> None:
    # Start-up time: the pages need every command, and only an installation needs the pages.
    from inspan.cli.main import inspan
    from inspan.cli.man_pages import MARK, build_man_pages
    from inspan.cli.shell_files import collect_files, completion_path, list_changes, man_folder, write_files

    found = collect_files(shell, mark_script(shell, build_script(shell), MARK), build_man_pages(inspan), os.environ)
    path = completion_path(shell, os.environ)
    written = list_changes(found) if dry_run else write_files(found)
    step = _describe_step(shell, path)
    if as_json:
        print_json(shell=shell, completion=path, man=man_folder(os.environ), dry_run=dry_run, files=written, next=step)
        return
    would = "would be " if dry_run else ""
    pages = sum(each != path for each in written)
    print_words(f"{path} {f'{would}written' if path in written else 'is up to date'}")
    print_words(f"{man_folder(os.environ)} {f'{would}written: {pages} pages' if pages else 'is up to date'}")
    print_words(f"next: {step}")


def _uninstall(shells: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    from inspan.cli.shell_files import list_own_files, man_folder, remove_files  # Start-up time: few look for it.

    found = list_own_files(shells, os.environ)
    if not dry_run:
        remove_files(found)
    if as_json:
        print_json(dry_run=dry_run, files=found)
        return
    folder, would = man_folder(os.environ), "would be " if dry_run else ""
    pages = [path for path in found if os.path.dirname(path) == folder]
    for path in found:
        if path not in pages:
            print_words(f"{path} {would}deleted")
    if pages:
        print_words(f"{folder} {would}deleted: {len(pages)} pages")
    elif not found:
        click.echo("nothing to delete")


def mark_script(shell: str, script: str, mark: str) -> str:
    """The script with a line by which it is known again; Zsh wants its own line to be the first."""
    first, end, rest = script.partition("\n")
    return f"{first}{end}# {mark}\n{rest}" if shell == "zsh" else f"# {mark}\n{script}"


def _describe_step(shell: str, path: str) -> str:
    """What is left to do, by shell."""
    if shell == "fish":
        return "open a new shell"
    if shell == "zsh":
        folder = os.path.dirname(path)
        return f"put `fpath=({folder} $fpath)` into ~/.zshrc, before compinit, and open a new shell"
    return f"open a new shell; without the package bash-completion, put `source {path}` into ~/.bashrc"


def build_script(shell: str) -> str:
    """The script that a shell reads; raises `HarnessFault` where click has none."""
    return _script(shell) + (_BASH if shell == "bash" else "")


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:
        raise HarnessFault(f"This click knows no completion for {shell}.")
    # Not the class's own `source`: Bash's starts a Bash to look at its version.
    script = ShellComplete.source(kind(click.Command("inspan"), {}, "inspan", _VARIABLE))
    for old, new in _CHANGES[shell].items():
        script = script.replace(old, new)
    return script
