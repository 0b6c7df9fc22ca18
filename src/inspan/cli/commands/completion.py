"""Print a script that completes commands, options and runs in a shell."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from inspan.cli.output import print_json
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
@click.argument("shell", type=click.Choice(list(_CHANGES)))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(shell: str, as_json: bool) -> None:
    """Print a script that completes commands, options, agents and runs in a shell.

    \b
    bash: eval "$(inspan completion bash)"          in ~/.bashrc
    zsh:  eval "$(inspan completion zsh)"           in ~/.zshrc, after compinit
    fish: inspan completion fish | source           in ~/.config/fish/config.fish
    """
    script = _script(shell) + (_BASH if shell == "bash" else "")
    if as_json:
        print_json(shell=shell, script=script)
    else:
        click.echo(script, nl=False)


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:
        raise HarnessFault(f"This click knows no completion for {shell}.")
    # Not the class's own `source`: Bash's starts a Bash to look at its version.
    script = ShellComplete.source(kind(click.Command("inspan"), {}, "inspan", _VARIABLE))
    for old, new in _CHANGES[shell].items():
        script = script.replace(old, new)
    return script
