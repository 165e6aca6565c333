"""`cloche completion`: prints the script by which a shell completes `cloche`, and answers that script."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

SHELLS = ("bash", "zsh", "fish")
# Each script asks `cloche completion SHELL …` at every Tab.  An answer has a line for each value, with its description
# after a tab, and perhaps `=files` or `=folders`: then the shell adds the names of files, which it quotes better.
_BASH = r"""# bash completion for cloche: eval "$(cloche completion bash)"
_cloche() {
    local line value paths='' words=()
    COMPREPLY=()
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        case $value in
            =*) paths=${value#=} ;;
            *) COMPREPLY+=("$value"); case $value in *[:/=]) compopt -o nospace ;; esac ;;
        esac
    done < <("$1" completion bash "${COMP_LINE:0:COMP_POINT}" 2> /dev/null)
    if [[ $paths ]]; then
        compopt -o filenames
        local kind=-f
        [[ $paths == folders ]] && kind=-d
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$kind" -- "$2")
    fi
}
complete -F _cloche cloche
"""
_ZSH = r"""#compdef cloche
# zsh completion for cloche: eval "$(cloche completion zsh)", after compinit
_cloche() {
    local line value paths='' rest
    local -a values shown open open_shown
    for line in "${(@f)$("${(Q)words[1]}" completion zsh "${(@Q)words[1,CURRENT]}" 2> /dev/null)}"; do
        value=${line%%$'\t'*}
        rest=${line#*$'\t'}
        case $value in
            '') ;;
            '='*) paths=${value#=} ;;
            *[:/=]) open+=("$value"); open_shown+=("$value  $rest") ;;
            *) values+=("$value"); shown+=("$value  $rest") ;;
        esac
    done
    (( $#values )) && compadd -l -d shown -a values
    (( $#open )) && compadd -S '' -l -d open_shown -a open
    if [[ -n $paths ]]; then
        compset -P '*='
        if [[ $paths == folders ]]; then _files -/; else _files; fi
    fi
}
compdef _cloche cloche
"""
_FISH = r"""# fish completion for cloche: cloche completion fish | source
function __cloche_complete
    set -l token (commandline -ct)
    set -l words (commandline -opc) "$token"
    for line in (command $words[1] completion fish $words 2> /dev/null)
        set -l prefix (string match -r '^-.*=' -- "$token")
        set -l name (string replace -r '^-.*=' '' -- "$token")
        switch "$line"
            case '=files'
                __fish_complete_path "$name" | string replace -r '^' -- "$prefix"
            case '=folders'
                __fish_complete_directories "$name" '' | string replace -r '^' -- "$prefix"
            case '*'
                echo $line
        end
    end
end
complete -c cloche -f -a '(__cloche_complete)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add(commands: Any, shape: dict[str, Any]) -> None:
    from argparse import SUPPRESS

    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Prints a script by which bash, zsh or fish completes the commands, options and values of cloche.",
        **shape,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.add_argument("words", nargs="...", help=SUPPRESS)  # from the scripts


def main(arguments: argparse.Namespace) -> int:
    if not arguments.words:
        print(_SCRIPTS[arguments.shell], end="")
        return 0
    import os
    import sys

    from cloche.cli import completions

    if arguments.shell == "bash":
        words = completions.split(arguments.words[0])
        offer = completions.offer(words[1:])
        cut = max(words[-1].rfind(":"), words[-1].rfind("=")) + 1  # bash completes what follows these
    else:
        offer, cut = completions.offer(arguments.words[1:]), 0
    lines = [f"{value[cut:]}\t{about}" for value, about in offer.values]
    lines += [f"={offer.paths}"] if offer.paths else []
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    os._exit(0)  # without waiting for a server that does not answer
