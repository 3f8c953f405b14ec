"""`rocketq completion`: a script that makes a shell complete commands and options.

The script holds the words themselves, so that pressing Tab starts no Python.
"""

import importlib
from typing import Annotated, Final

from rocketq.cli.commands import Argument, command, words_after
from rocketq.cli.failures import fail

_SHELLS: Final = ("bash", "zsh", "fish")
_OTHERS: Final = ("help", "version")


def completion(
    shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that makes a shell complete `rocketq`.

    source <(rocketq completion bash)            for this session, or in ~/.bashrc
    source <(rocketq completion zsh)             the same in ~/.zshrc, after compinit
    rocketq completion fish > ~/.config/fish/completions/rocketq.fish
    """
    if shell not in _SHELLS:
        fail(f"there is no completion for {shell}; there is bash, zsh and fish")
    table = _table()
    if shell == "fish":
        print(_fish(table))
    else:
        prefix = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
        print(prefix + _bash(table))


run = command(completion)

_Table = dict[str, dict[str, list[str]]]


def _table() -> _Table:
    """Command -> sub-command ("" where there is none) -> its options."""
    from rocketq.cli.app import COMMANDS

    found: _Table = {}
    for name, lazy in COMMANDS.items():
        try:
            found[name] = {}
            for module in lazy.modules():
                found[name] |= words_after(importlib.import_module(module).run)
        except ImportError:
            continue  # an extra that is not installed
    return found


def _bash(table: _Table) -> str:
    cases = []
    for name, subs in table.items():
        names = " ".join(sub for sub in subs if sub)
        if names:
            first_words = " ".join([names, *subs.get("", [])])
            cases.append(f'    "{name} ") words="{first_words}" ;;')
        # The pattern of a command without a word fits all of them, so it stands last.
        for sub, option_names in sorted(subs.items(), key=lambda each: not each[0]):
            mark = f'"{name} {sub}"' if sub else f'"{name} "*'
            cases.append(f'    {mark}) words="{" ".join(option_names)}" ;;')
    first = " ".join([*table, *_OTHERS])
    body = "\n".join(cases)
    return f"""\
_rocketq() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words="" second=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{first}" -- "$current"))
    return
  fi
  [ "$COMP_CWORD" -gt 2 ] && second="${{COMP_WORDS[2]}}"
  case "${{COMP_WORDS[1]}} $second" in
{body}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _rocketq rocketq"""


def _fish(table: _Table) -> str:
    first = " ".join([*table, *_OTHERS])
    lines = [f"complete -c rocketq -f -n __fish_use_subcommand -a '{first}'"]
    for name, subs in table.items():
        names = " ".join(sub for sub in subs if sub)
        if names:
            inside = f"__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from"
            lines.append(f"complete -c rocketq -f -n '{inside} {names}' -a '{names}'")
        for sub, option_names in subs.items():
            where = f"__fish_seen_subcommand_from {name}"
            where += f"; and __fish_seen_subcommand_from {sub}" if sub else ""
            lines += [f"complete -c rocketq -n '{where}' -l {each[2:]}" for each in option_names]
    return "\n".join(lines)
