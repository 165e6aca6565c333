# Sourced by the bash that a Bash kernel drives (cloche.kernels.bash), before its first cell and after each `exit`.
# Its caller has set __cloche_folder: where the fifos `commands` and `reports` are (and `idle`, on which nothing ever comes),
# and the state goes between two lives.
#
# A cell may define functions and aliases of any name: what is ours asks for the `builtin`, with a backslash where bash
# reads it anew each time.

builtin shopt -s expand_aliases
__cloche_running=
__cloche_at_exit=
__cloche_dropped=()
__cloche_replaced=()

# The status that the cell before has left.
__cloche_left() {
    builtin return "$1"
}

# At the end of a cell that came to its end.
__cloche_end() {
    __cloche_running=
    __cloche_dropped=()
    __cloche_restore
}

# `exit`, errexit, nounset and interrupts end the shell.  It tells, writes down all that it knows, and begins anew: the
# same process, in the same directory, with the same umask and limits.
__cloche_leave() {
    builtin trap - EXIT
    ((${#FUNCNAME[@]} == 3)) || __cloche_drop_locals # more than this one, the cell's `source` and "main"
    builtin local __cloche_options="$SHELLOPTS"
    builtin set +o posix # in which all traps are told, the unset ones as well
    builtin trap -p >|"$__cloche_folder/traps"
    builtin trap - ERR DEBUG RETURN
    builtin trap : INT TERM HUP # an action may be `kill 0`; not ignored: the next shell could not change that
    if [[ -n $__cloche_at_exit ]]; then
        builtin local __cloche_action="$__cloche_at_exit"
        __cloche_at_exit=
        builtin eval "$__cloche_action"
    fi
    __cloche_restore
    __cloche_save >|"$__cloche_folder/state"
    builtin echo "left 0 $__cloche_status $__cloche_flags" >|"$__cloche_folder/reports" ||
        /bin/echo "left 0 $__cloche_status $__cloche_flags" >|"$__cloche_folder/reports"
    builtin exec -a bash "$BASH" --noprofile --norc "$__cloche_folder/commands"
}

# Called in the middle of functions, their local variables are not the shell's: unset, they show what they hide.
__cloche_drop_locals() {
    builtin local __cloche_name __cloche_value
    builtin local -a __cloche_names # read by mapfile: words would depend on IFS
    builtin mapfile -t __cloche_names <<<"$__cloche_locals"
    for __cloche_name in "${__cloche_names[@]}"; do
        [[ ! $__cloche_name =~ ^declare\ -[^\ ]+\ ([A-Za-z0-9_]+)(=|$) ]] || builtin unset -v "${BASH_REMATCH[1]}"
    done
    # Those were of the innermost.  Of a function that called it, bash names none; but what is local hides that the
    # global variable is changed.  (Arrays and integers are left as they are.)
    builtin mapfile -t __cloche_names < <(\builtin compgen -A variable)
    for __cloche_name in "${__cloche_names[@]}"; do
        __cloche_is_ours "$__cloche_name" && builtin continue
        [[ -v $__cloche_name && ${!__cloche_name@a} == ?(x) ]] || builtin continue
        __cloche_value=${!__cloche_name}
        builtin declare -g "$__cloche_name+=:changed:"
        if [[ ${!__cloche_name} == "$__cloche_value:changed:" ]]; then
            builtin declare -g "$__cloche_name=$__cloche_value"
            builtin continue
        fi
        until [[ ${!__cloche_name-:changed:} == *:changed: ]]; do builtin unset -v "$__cloche_name"; done
        __cloche_value=${!__cloche_name}
        if [[ $__cloche_value == :changed: ]]; then
            builtin unset -v "$__cloche_name"
        else
            builtin declare -g "$__cloche_name=${__cloche_value%:changed:}"
        fi
    done
}

__cloche_interrupted() {
    [[ -z $__cloche_running ]] || builtin exit 130
}

# An EXIT trap is kept for the cell that exits, because we need the shell's own.  DEBUG, ERR and RETURN come back at the
# end of a function that takes them away, so they do nothing until the end of the cell, where they go.
trap() {
    if ((BASH_SUBSHELL > 0 || $# == 0)) || [[ $1 == -[lp]* ]]; then
        builtin trap "$@"
        builtin return
    fi
    [[ $1 != -- ]] || builtin shift
    builtin local action="$1" name
    builtin local -a others
    if (($# == 1)); then action=-; else builtin shift; fi
    for name; do
        case $name in
            DEBUG | ERR | RETURN)
                if [[ $action == - ]]; then
                    builtin trap : "$name"
                    __cloche_dropped+=("$name")
                else
                    others+=("$name")
                fi ;;
            EXIT | exit | 0) if [[ $action == - ]]; then __cloche_at_exit=; else __cloche_at_exit=$action; fi ;;
            INT | SIGINT | int | 2)
                if [[ $action == - ]]; then builtin trap __cloche_interrupted INT; else others+=("$name"); fi ;;
            *) others+=("$name") ;;
        esac
    done
    ((${#others[@]} == 0)) || builtin trap -- "$action" "${others[@]}"
}

# Until it becomes its program a child has our handlers still, but not our traps: it would lose the signal, and whoever
# waits for it would wait until the time is up.  So the child that was started last gets the time to come so far.
kill() {
    {
        builtin local - __cloche_milliseconds=100
        builtin set +eux
        while ((__cloche_milliseconds-- > 0)) && __cloche_is_beginning "${!-}"; do
            builtin read -rt 0.001 <>"$__cloche_folder/idle"
        done
    } 2>/dev/null
    builtin kill "$@"
}

# Does the process catch SIGTERM, as this shell does?
__cloche_is_beginning() {
    builtin local IFS=' ' __cloche_line
    builtin local -a __cloche_fields
    builtin read -r __cloche_line <"/proc/$1/stat" || builtin return
    builtin read -ra __cloche_fields <<<"${__cloche_line##*) }"
    ((__cloche_fields[31] >> 14 & 1)) # "sigcatch", the 34th
}

# The environment of one cell alone: a name and its value.
__cloche_with() {
    builtin local -n __cloche_variable="$1"
    if [[ ${__cloche_variable@a} == *r* ]]; then
        builtin echo "bash: $1 is readonly, and stays as it is" >&2
        builtin return
    fi
    __cloche_replaced+=("$1" "${__cloche_variable+set}" "${__cloche_variable-}" "${__cloche_variable@a}")
    builtin export "$1=$2"
}

__cloche_restore() {
    builtin local __cloche_index
    for ((__cloche_index = ${#__cloche_replaced[@]} - 4; __cloche_index >= 0; __cloche_index -= 4)); do
        builtin set -- "${__cloche_replaced[@]:__cloche_index:4}"
        if [[ -z $2 ]]; then
            builtin unset -v "$1"
        else
            builtin printf -v "$1" %s "$3"
            [[ $4 == *x* ]] || builtin export -n "${1?}"
        fi
    done
    __cloche_replaced=()
}

# Is the variable of that name the kernel's, or the shell's own?
__cloche_is_ours() {
    case $1 in
        __cloche_* | BASH | BASHOPTS | BASHPID | BASH_[A-Z]* | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS) ;;
        HISTCMD | LINENO | PIPESTATUS | PPID | PWD | RANDOM | SECONDS | SHELLOPTS | SHLVL | SRANDOM | UID | _) ;;
        *) builtin return 1 ;;
    esac
}

# All of the state, as commands that bring it back.
__cloche_save() {
    builtin local __cloche_name
    builtin local -a __cloche_names
    builtin mapfile -t __cloche_names < <(\builtin compgen -A variable)
    for __cloche_name in "${__cloche_names[@]}"; do
        __cloche_is_ours "$__cloche_name" || builtin declare -p "$__cloche_name" 2>/dev/null
    done
    builtin mapfile -t __cloche_names < <(\builtin compgen -A function)
    for __cloche_name in "${__cloche_names[@]}"; do
        case $__cloche_name in
            __cloche_* | trap | kill) ;;
            *) builtin declare -f -- "$__cloche_name" ;;
        esac
    done
    builtin mapfile -t __cloche_names < <(\builtin declare -Fx)
    for __cloche_name in "${__cloche_names[@]}"; do
        builtin echo "builtin export -f -- ${__cloche_name##* }"
    done
    builtin shopt -p
    builtin mapfile -t __cloche_names < <(\builtin set +o)
    for __cloche_name in "${__cloche_names[@]}"; do
        case $__cloche_name in
            *errexit | *nounset | *xtrace | *verbose | *posix) ;;
            *) builtin echo "$__cloche_name" ;;
        esac
    done
    [[ ! -s $__cloche_folder/traps ]] || builtin echo "builtin source '$__cloche_folder/traps'"
    builtin echo "__cloche_at_exit=${__cloche_at_exit@Q}"
    [[ :$__cloche_options: != *:posix:* ]] || builtin echo "set -o posix"
    builtin alias -p # last: what is read after them is read with them
}

# Read when it is run, and aliases with it; to /dev/null, where xtrace would tell of it.  A child that is killed before it
# has let go of our traps (`sleep 9 & kill $!`) comes here, too, and must not take the shell's place.
builtin trap "{ __cloche_status=\$? __cloche_flags=\$-; \\builtin set +euvx
[[ \${BASHPID-\$\$} == \$\$ ]] || \\builtin exit \$__cloche_status; __cloche_locals=\$(\\builtin local); } 2>/dev/null
__cloche_folder=${__cloche_folder@Q}
\\__cloche_leave" EXIT
builtin trap __cloche_interrupted INT
builtin trap '\builtin exit 143' TERM # otherwise its end would look like a success
builtin trap '\builtin exit 129' HUP
