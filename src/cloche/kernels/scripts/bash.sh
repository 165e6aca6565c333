# Sourced by the bash that a Bash kernel drives (cloche.kernels.bash), before its first cell and after each `exit`.
# The kernel has set __cloche_folder, which has the fifos `commands`, `reports` and `idle` (nothing ever arrives on the
# last one), and the saved state between two lives of the shell.
#
# A cell may define functions and aliases of any name: our code asks for the `builtin`, with a backslash where bash
# parses the text again each time.

builtin shopt -s expand_aliases
__cloche_running=
__cloche_at_exit=
__cloche_dropped=()
__cloche_replaced=()

# The variables before the first cell are not the user's.
[[ -e $__cloche_folder/known ]] || builtin compgen -A variable >|"$__cloche_folder/known"

# Sets $? to the status of the previous cell.
__cloche_left() {
    builtin return "$1"
}

# Called at the end of a cell that did not exit early.
__cloche_end() {
    __cloche_running=
    __cloche_dropped=()
    __cloche_restore
}

# `exit`, errexit, nounset and interrupts end the shell.  It reports that, saves its whole state, and starts again: the
# same process, in the same directory, with the same umask and limits.
__cloche_leave() {
    builtin trap - EXIT
    ((${#FUNCNAME[@]} == 3)) || __cloche_drop_locals # more frames than this one, the cell's `source` and "main"
    builtin local __cloche_options="$SHELLOPTS"
    builtin set +o posix # in which `trap -p` prints all traps, the unset ones as well
    builtin trap -p >|"$__cloche_folder/traps"
    builtin trap - ERR DEBUG RETURN
    builtin trap : INT TERM HUP # an action may be `kill 0`; not ignored, because the next shell could not change that
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

# In the middle of functions, unset their local variables, which are not the shell's: that shows the hidden globals.
__cloche_drop_locals() {
    builtin local __cloche_name __cloche_value
    builtin local -a __cloche_names # read by mapfile, because word splitting would depend on IFS
    builtin mapfile -t __cloche_names <"$__cloche_folder/locals"
    for __cloche_name in "${__cloche_names[@]}"; do
        [[ ! $__cloche_name =~ ^declare\ -[^\ ]+\ ([A-Za-z0-9_]+)(=|$) ]] || builtin unset -v "${BASH_REMATCH[1]}"
    done
    # Those were the locals of the innermost function.  Bash lists none of its callers'; but a local variable hides
    # a change of the global one.  (Arrays and integers are left as they are.)
    __cloche_read_names compgen -A variable
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

# We need the shell's EXIT trap, so the cell's is kept for the cell that exits.  DEBUG, ERR and RETURN traps that a
# function removes come back at its end, so they become no-ops, and are removed at the end of the cell.
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

# Until exec, a child still has our signal handlers, but not our traps: it would lose the signal, and a `wait` for it
# would last until the time limit.  So the youngest child gets some time to reach its exec.
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

# Says whether the process catches SIGTERM, as this shell does.
__cloche_is_beginning() {
    builtin local IFS=' ' __cloche_line
    builtin local -a __cloche_fields
    builtin read -r __cloche_line <"/proc/$1/stat" || builtin return
    builtin read -ra __cloche_fields <<<"${__cloche_line##*) }"
    ((__cloche_fields[31] >> 14 & 1)) # "sigcatch", the 34th
}

# Sets an environment variable for one cell: a name and its value.
__cloche_with() {
    builtin local -n __cloche_variable="$1"
    if [[ ${__cloche_variable@a} == *r* ]]; then
        builtin echo "bash: $1 is readonly and keeps its value" >&2
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

# Reads the lines that a builtin prints into __cloche_names.  A substitution would need a process, and a shell that ends
# because it cannot have one must keep its state, too.
__cloche_read_names() {
    builtin "$@" >|"$__cloche_folder/names"
    builtin mapfile -t __cloche_names <"$__cloche_folder/names"
}

# Says whether the variable belongs to the kernel or to the shell itself.
__cloche_is_ours() {
    case $1 in
        __cloche_* | BASH | BASHOPTS | BASHPID | BASH_[A-Z]* | COMP_* | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS) ;;
        HISTCMD | LINENO | PIPESTATUS | PPID | PWD | RANDOM | SECONDS | SHELLOPTS | SHLVL | SRANDOM | UID | _) ;;
        *) builtin return 1 ;;
    esac
}

# Prints the whole state, as commands that restore it.
__cloche_save() {
    builtin local __cloche_name
    builtin local -a __cloche_names
    __cloche_read_names compgen -A variable
    for __cloche_name in "${__cloche_names[@]}"; do
        __cloche_is_ours "$__cloche_name" || builtin declare -p "$__cloche_name" 2>/dev/null
    done
    __cloche_read_names compgen -A function
    for __cloche_name in "${__cloche_names[@]}"; do
        case $__cloche_name in
            __cloche_* | trap | kill) ;;
            *) builtin declare -f -- "$__cloche_name" ;;
        esac
    done
    __cloche_read_names declare -Fx
    for __cloche_name in "${__cloche_names[@]}"; do
        builtin echo "builtin export -f -- ${__cloche_name##* }"
    done
    builtin shopt -p
    __cloche_read_names set +o
    for __cloche_name in "${__cloche_names[@]}"; do
        case $__cloche_name in
            *errexit | *nounset | *xtrace | *verbose | *posix) ;;
            *) builtin echo "$__cloche_name" ;;
        esac
    done
    [[ ! -s $__cloche_folder/traps ]] || builtin echo "builtin source '$__cloche_folder/traps'"
    builtin echo "__cloche_at_exit=${__cloche_at_exit@Q}"
    [[ :$__cloche_options: != *:posix:* ]] || builtin echo "set -o posix"
    builtin alias -p # last, because they change how the lines after them are read
}

# Writes the user's variables and functions for cloche.kernels.variable_report; runs in a subshell.  Its arguments are a
# path, a part of a name, and a whole name.  Variables that refer to others are not followed, because the reference may
# contain a command: `declare -n list='a[$(rm -r /)]'`.
__cloche_list() {
    builtin trap - DEBUG ERR RETURN EXIT # a subshell has these with `set -T` and `set -E`
    builtin set +o posix
    builtin shopt -u nocasematch
    __cloche_describe_all "$2" "$3" >|"$1"
}

__cloche_describe_all() {
    builtin local __cloche_search="${1,,}" __cloche_only="$2" __cloche_name __cloche_kind
    builtin local -a __cloche_names __cloche_found
    builtin local -A __cloche_arrays __cloche_known
    builtin local -i __cloche_room=120
    SECONDS=0
    [[ -z $__cloche_only ]] || __cloche_room=8000
    builtin mapfile -t __cloche_names <"$__cloche_folder/known"
    for __cloche_name in "${__cloche_names[@]}"; do __cloche_known[$__cloche_name]=1; done
    __cloche_read_names compgen -A arrayvar
    for __cloche_name in "${__cloche_names[@]}"; do __cloche_arrays[$__cloche_name]=1; done
    __cloche_read_names compgen -A variable
    for __cloche_name in "${__cloche_names[@]}"; do
        __cloche_is_wanted "$__cloche_name" && __cloche_found+=("$__cloche_name")
        __cloche_known[$__cloche_name]=1
    done
    __cloche_read_names compgen -A function
    for __cloche_name in "${__cloche_names[@]}"; do
        [[ $__cloche_name != trap && $__cloche_name != kill ]] || builtin continue
        __cloche_is_wanted "$__cloche_name" && __cloche_found+=("$__cloche_name ")
    done
    builtin printf '%s\0' "${#__cloche_found[@]}"
    for __cloche_name in "${__cloche_found[@]:0:1000}"; do
        if [[ $__cloche_name == *" " ]]; then
            __cloche_describe_function "${__cloche_name% }"
        elif [[ -R $__cloche_name ]]; then
            builtin printf '%s\0reference\0\0000\0\0' "$__cloche_name"
        elif ((SECONDS < 2)); then
            __cloche_describe "$__cloche_name"
        else
            builtin printf '%s\0\0\0000\0\0' "$__cloche_name"
        fi
    done
}

# Says whether a variable or function is the user's and has the name that is searched.
__cloche_is_wanted() {
    [[ -z ${__cloche_known[$1]-} ]] && ((${#1} <= 100)) || builtin return
    case $1 in
        OLDPWD | COLUMNS | LINES) builtin return 1 ;;
    esac
    ! __cloche_is_ours "$1" || builtin return 1
    if [[ -n $__cloche_only ]]; then [[ $1 == "$__cloche_only" ]]; else [[ ${1,,} == *"$__cloche_search"* ]]; fi
}

# Prints one variable: name, type, length, bytes, and the beginning of its value.
__cloche_describe() {
    builtin local -n __cloche_value="$1"
    builtin local __cloche_flags="${__cloche_value@a}" __cloche_key __cloche_text='' __cloche_more=''
    if [[ -z ${__cloche_arrays[$1]-} ]]; then
        case $__cloche_flags in *i*) __cloche_kind=integer ;; *) __cloche_kind=string ;; esac
        __cloche_text=${__cloche_value:0:__cloche_room+1}
        [[ -n $__cloche_only || $__cloche_kind == integer ]] || __cloche_text=${__cloche_text@Q}
        builtin printf '%s\0%s\0%s\0%s\0%s\0' "$1" "$__cloche_kind" "${#__cloche_value}" 0 "$__cloche_text"
        builtin return
    fi
    builtin local -i __cloche_count=${#__cloche_value[@]}
    if [[ $__cloche_flags != *[aA]* ]] && ((__cloche_count <= 10000)); then # older ones say it only of the element 0
        builtin declare -p "$1" >|"$__cloche_folder/names"
        builtin read -rN 30 __cloche_flags <"$__cloche_folder/names"
        __cloche_flags=${__cloche_flags#declare -} __cloche_flags=${__cloche_flags%% *}
    fi
    case $__cloche_flags in *A*) __cloche_kind="associative array" ;; *) __cloche_kind=array ;; esac
    if ((__cloche_count > 10000)); then # to know its keys would take long
        __cloche_text=…
    else
        for __cloche_key in "${!__cloche_value[@]}"; do
            ((${#__cloche_text} <= __cloche_room)) || builtin break
            __cloche_more=${__cloche_value[$__cloche_key]:0:__cloche_room+1}
            __cloche_text+="${__cloche_text:+ }[${__cloche_key:0:__cloche_room}]=${__cloche_more@Q}"
        done
    fi
    builtin printf '%s\0%s\0%s\0%s\0%s\0' "$1" "$__cloche_kind" "$__cloche_count" 0 "($__cloche_text)"
}

__cloche_describe_function() {
    builtin local __cloche_text="$1()"
    if [[ -n $__cloche_only ]]; then
        builtin declare -f -- "$1" >|"$__cloche_folder/names"
        builtin read -rd '' -N 8001 __cloche_text <"$__cloche_folder/names"
    fi
    builtin printf '%s\0function\0\0000\0%s\0' "$1" "$__cloche_text"
}

# The trap's text is parsed when it runs, with the cell's aliases.  Its output goes to /dev/null because of xtrace.  A
# child that is killed before its exec (`sleep 9 & kill $!`) comes here, too, and must not replace the shell.
builtin trap "{ __cloche_status=\$? __cloche_flags=\$-; \\builtin set +euvx
[[ \${BASHPID-\$\$} == \$\$ ]] || \\builtin exit \$__cloche_status
\\builtin local >|${__cloche_folder@Q}/locals; } 2>/dev/null
__cloche_folder=${__cloche_folder@Q}
\\__cloche_leave" EXIT
builtin trap __cloche_interrupted INT
builtin trap '\builtin exit 143' TERM # otherwise its end would look like a success
builtin trap '\builtin exit 129' HUP
