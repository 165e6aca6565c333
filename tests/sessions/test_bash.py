"""Cells in Bash: a shell that goes on, whatever a cell does to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import cloche

Run = Callable[..., cloche.Result]


@pytest.fixture
def sh(box: cloche.Sandbox) -> Run:
    return lambda code, timeout=10, **options: box.run(code, language="bash", timeout=timeout, **options)


# --- state

STATE = r"""
cd /tmp; plain='a  b'; export shown=1; list=(1 '2 3' $'4\n'); declare -A map=([k]='v w' ["it's"]=q); declare -i number=4
lines=$'one\ntwo\'"'; readonly fixed=f; sparse[5]=z; empty=; declare -n other=plain; wide='zażółć 🎈'; raw=$'\x01\xff'
greet() { local who=${1:-you}; cat <<EOT
hello $who
EOT
}
alias hi='echo aliased'; shopt -s nullglob extglob; set -o noclobber; set -f; umask 027; trap 'echo usr1' USR1
set -- first second
"""
LOOK = r"""
pwd; printf '%q|' "$plain" "${list[@]}" "${map[k]}" "${map["it's"]}" "$lines" "$fixed" "${!sparse[@]}" "${empty-unset}"
printf '%q|' "$other" "$wide" "$raw"; echo; number=number+1; echo $number; greet me; hi; bash -c 'echo $shown'
shopt -q nullglob && shopt -q extglob && echo options; echo @(a|b)*; [[ -o noclobber ]] && echo noclobber; umask
kill -USR1 $$
"""
SEEN = r"""/tmp
a\ \ b|1|2\ 3|$'4\n'|v\ w|q|$'one\ntwo\'"'|f|5|''|a\ \ b|zażółć\ 🎈|$'\001\377'|
5
hello me
aliased
1
options
@(a|b)*
noclobber
0027
usr1
"""


@pytest.mark.parametrize("end", ["", "exit 3", "set -e; false", "set -u; echo $nowhere", "kill -TERM $$"])
def test_all_of_the_state_outlives_a_cell_however_it_ends(sh, end):
    sh(STATE + end)
    assert sh(LOOK).stdout.replace("''$'\\001\\377'", "$'\\001\\377'") == SEEN


def test_two_contexts_do_not_share_variables(box):
    one, two = (box.contexts.create(language="bash") for _ in range(2))
    one.run("x=1; cd /")
    assert two.run("echo [$x] $PWD").stdout == "[] /sandbox\n"


def test_positional_parameters_are_the_shells(sh):
    sh("set -- a 'b c'")
    assert sh("echo $# $2").stdout == "2 b c\n"


# --- ends of a cell


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("exit 3", 3),
        ("exit 256", 0),
        ("f() { exit 4; }; f", 4),
        ("set -e; false; echo no", 1),
        ("set -u; echo $nowhere; echo no", 1),
        ("set -eo pipefail; false | true; echo no", 1),
        ("return 7; echo no", 7),
        ("(exit 9)", 9),
        ("nosuchcommand", 127),
        ("kill -TERM $$", 143),
        ("echo ${nowhere?gone}; echo no", 1),
        ("true", 0),
    ],
)
def test_a_cell_ends_with_its_code_and_the_shell_goes_on(sh, code, number):
    sh("kept=1")
    result = sh(code)
    assert (result.exit_code, result.restarted, result.stdout) == (number, False, "")
    assert (result.error is None) == (number == 0)
    assert sh("echo $kept").stdout == "1\n"


def test_errexit_and_nounset_are_the_cells_own(sh):
    sh("set -eu")
    assert sh("false; echo $nowhere; echo on").stdout == "\non\n"


def test_exit_in_a_subshell_ends_the_subshell(sh):
    assert sh("(exit 6); echo $?; x=$(exit 7); echo $?; true | exit 8; echo $?").stdout == "6\n7\n8\n"


def test_locals_of_a_function_that_exits_are_gone(sh):
    sh("hidden=global; f() { local hidden=local own=1; exit 1; }; f")
    assert sh("echo $hidden ${own-none}").stdout == "global none\n"


def test_locals_of_the_functions_around_it_are_gone_too(sh):
    sh("f() { local hidden=f own=1 out=2; g; }; g() { local hidden=g in=2; h; }; h() { new=3; exit 1; }")
    sh("hidden=global; export out=1; f")
    assert sh("echo $hidden ${own-none} ${in-none} $new; bash -c 'echo $out'").stdout == "global none none 3\n1\n"


def test_an_exit_trap_runs_at_exit_and_others_last(sh):
    sh("trap 'echo bye' EXIT; trap 'echo usr1' USR1")
    assert sh("echo mid").stdout == "mid\n"
    assert sh("exit 2").stdout == "bye\n"
    assert sh("kill -USR1 $$; exit").stdout == "usr1\n"
    assert sh("(trap 'echo inner' EXIT)").stdout == "inner\n"


def test_debug_and_err_traps_can_be_taken_away(sh):
    assert sh("trap 'echo err' ERR; trap 'echo debug' DEBUG; false; true").stdout.count("err") == 1
    sh("trap - ERR DEBUG")
    assert sh("false; true; trap -p DEBUG ERR").stdout == ""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("echo a\nif then\necho b", "line 2: syntax error near unexpected token `then'"),
        ("fi", "line 1: syntax error near unexpected token `fi'"),
        ("for i in 1; do\necho b\n", "syntax error: unexpected end of file"),
        ("echo 'open", "line 1: unexpected EOF while looking for matching `''"),
        ("echo $(echo", "unexpected EOF while looking for matching `)'"),
    ],
)
def test_what_cannot_be_read_is_a_syntax_error_at_its_line(sh, code, message):
    result = sh(code)
    assert result.error.kind == "syntax"
    assert message in result.error.message
    assert "/tmp/.bash" not in result.error.message
    assert sh("echo on").stdout == "on\n"


def test_a_program_that_ends_with_2_is_no_syntax_error(sh):
    assert sh("shopt -s extglob; ls /nonexistent").error.kind == "exit"
    assert sh("echo @(a); exit 2").error.kind == "exit"


# --- what shells do


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("echo b a | tr ' ' '\\n' | sort; echo ${PIPESTATUS[@]}", "a\nb\n0 0 0\n"),
        ("x=1; cat <<E\n[$x]\nE\ncat <<'E'\n[$x]\nE\ncat <<<here", "[1]\n[$x]\nhere\n"),
        ("diff <(echo a) <(echo b) | tail -1; echo x > >(cat); wait $!", "> b\nx\n"),
        ("echo $((2 ** 40)) $((16#ff)); let y=3+4; ((y++)); echo $y", "1099511627776 255\n8\n"),
        (
            "a=(x y z); echo ${#a[@]} ${a[-1]} ${a[@]:1:1}; s=hello; echo ${s^^} ${s/l/L} ${s:1:3}",
            "3 z y\nHELLO heLlo ell\n",
        ),
        ("for i in {1..3}; do echo -n $i; done; case abc in a*) echo A;; esac", "123A\n"),
        ("coproc cat; echo hi >&${COPROC[1]}; read l <&${COPROC[0]}; echo $l; kill $COPROC_PID", "hi\n"),
        ("f() { return 3; }; f || echo $?", "3\n"),
        ("printf '%s\\n' \"${BASH_SOURCE##*/}\" $LINENO", "cell-1\n1\n"),
    ],
)
def test_what_shells_do(sh, code, output):
    assert sh(code).stdout == output


def test_jobs_go_on_and_can_be_waited_for_later(sh):
    sh("(sleep 0.1; echo late; exit 5) & job=$!")
    assert sh("wait $job; echo $?").stdout == "late\n5\n"


def test_a_signal_for_a_child_that_has_just_begun_waits_until_it_can_take_it(sh):
    # Until then it catches what the shell catches, and loses that: `sleep 100 & kill $!; wait $!` may wait to the end.
    begin = "sleep 9 & kill -0 $!; read -r line </proc/$!/stat; set -- ${line##*) }; echo $((${32} >> 14 & 1)); kill $!"
    assert sh(f"for _ in 1 2 3 4 5; do {begin}; wait $!; done").stdout == "0\n" * 5
    assert sh("set -x; kill -l 15; set +x").stderr == "++ kill -l 15\n++ set +x\n"


def test_the_status_of_the_last_cell_can_be_asked_for(sh):
    sh("(exit 5)")
    assert sh("echo $?").stdout == "5\n"
    assert sh("echo $?").stdout == "0\n"
    sh("trap 'echo failed' ERR; exit 7")
    assert sh("echo $?").stdout == "7\n"


def test_a_signal_to_the_whole_group_ends_the_cell_and_not_the_kernel(sh):
    sh("kept=1; trap 'kill 0' EXIT")
    assert (sh("sleep 60 & exit 3").exit_code, sh("echo $kept").stdout) == (3, "1\n")
    assert (sh("sleep 60 & kill 0; echo after").exit_code, sh("echo $kept").stdout) == (143, "1\n")


def test_xtrace_tells_of_the_cell_alone_and_lasts(sh):
    assert sh("set -x; echo a").stderr == "++ echo a\n"
    assert sh("echo b").stderr == "++ echo b\n"
    assert sh("exit 1").stderr == "++ exit 1\n"
    assert sh("echo c; set +x").stderr == "++ echo c\n++ set +x\n"
    assert sh("echo d").stderr == ""


# --- output and input


def test_streams_are_told_apart_and_keep_bytes(sh):
    result = sh("printf 'out\\xff\\x00'; echo zażółć 🎈 >&2")
    assert (result.stdout_bytes, result.stderr) == (b"out\xff\0", "zażółć 🎈\n")


def test_a_very_long_line_is_whole(sh):
    assert sh("head -c 3000000 /dev/zero | tr '\\0' x").stdout == "x" * 3_000_000
    assert sh(f"echo {'y' * 200_000}").stdout == "y" * 200_000 + "\n"


@pytest.mark.parametrize(
    "code", ["exec >/tmp/log", "exec >&2", "exec 2>&1 >/dev/null", "exec >&- 2>&- <&-", "exec >/tmp/log; exit 1"]
)
def test_a_redirection_by_exec_is_the_cells_own(sh, code):
    sh(f"{code}")
    result = sh("echo out; echo err >&2; cat")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_other_descriptors_last(sh):
    sh("exec 3>/tmp/three; echo a >&3")
    assert sh("echo b >&3; exec 3>&-; cat /tmp/three").stdout == "a\nb\n"


def test_input_is_the_cells_own(sh):
    assert sh("read a; cat; exit 1", stdin="one\ntwo\n").stdout == "two\n"
    assert sh("echo $a; read b || echo none; cat").stdout == "one\nnone\n"


def test_the_environment_of_a_run_is_its_own(sh):
    sh("export there=old; readonly fixed=f; list=(1 2)")
    env = {"given": 'it\'s\n"2"', "there": "new", "fixed": "x", "list": "y"}
    result = sh("bash -c 'echo \"$given\" $there'; exit 1", env=env)
    assert result.stdout == 'it\'s\n"2" new\n'
    assert result.stderr == "bash: fixed is readonly and keeps its value\n"
    assert sh("echo ${given-none} $there ${list[1]}").stdout == "none old 2\n"


def test_a_huge_environment_is_kept(sh):
    sh("for i in {1..2000}; do export v$i=$i; done; huge=$(printf 'x%.0s' {1..100000}); exit 1")
    assert sh("echo $v2000 ${#huge}").stdout == "2000 100000\n"
    assert sh("echo ${#given}", env={"given": "x" * 200_000}).stdout == "200000\n"


# --- interruption and loss


@pytest.mark.parametrize(
    "code",
    [
        "while :; do :; done",
        "sleep 20",
        "for i in 1 2 3; do sleep 20; done",
        "sleep 20 & wait",
        "sleep 20 | cat",
        "read x < <(sleep 20)",
        "trap 'echo mine' INT; sleep 20",
        "python3 -c 'import time; time.sleep(20)'",
    ],
)
def test_a_timeout_ends_the_cell_and_keeps_the_state(sh, code):
    sh("kept=1")
    result = sh(code, timeout=0.3)
    assert (result.error.kind, result.exit_code, result.restarted) == ("timeout", 124, False)
    assert sh("echo $kept").stdout == "1\n"


@pytest.mark.parametrize(
    ("code", "kind"),
    [("kill -9 $$", "killed"), ("exec ls /sandbox", "exit"), ("builtin trap - EXIT; exit 5", "exit")],
)
def test_a_shell_that_is_lost_is_told_and_a_new_one_follows(sh, code, kind):
    sh("gone=1")
    result = sh(code)
    assert (result.error.kind, result.restarted) == (kind, True)
    assert sh("echo [$gone]").stdout == "[]\n"


def test_a_shell_that_stops_itself_is_ended_in_time(sh):
    sh(":")  # it has begun: an interrupt before the shell stops would end the cell without ending the shell
    result = sh("kill -STOP $$", timeout=1)
    assert (result.error.kind, result.restarted) == ("timeout", True)
    assert sh("echo on").stdout == "on\n"


def test_a_folder_left_by_a_kernel_of_the_same_pid_is_in_nobodys_way(box):
    box.run("import os; [os.mkdir(f'/tmp/.bash-{pid}') for pid in range(2, 200)]")
    assert box.run("echo on; exit 1", language="bash").stdout == "on\n"
    assert box.run("echo again", language="bash").stdout == "again\n"


def test_a_fork_bomb_is_bounded_and_the_sandbox_lives(jail):
    # The shell starts the two halves of its pipe itself.  If the first one leaves no room for the second, bash tries
    # again for 15 seconds and then exits, which ends the cell.
    with cloche.Sandbox(processes=30, timeout=60) as box:
        box.run("kept=1", language="bash")
        box.run(":() { : | : & }; :", language="bash")
        assert box.run("echo $kept", language="bash").stdout.endswith("1\n")
        box.restart()
        assert box.run("1 + 1").text == "2"
        assert box.run("ls / | wc -l", language="bash").ok


@pytest.mark.parametrize(
    "code",
    [
        "exit 3",
        "f() { local kept=2; exit 3; }; f",
        "exit 2",  # bash's status after a syntax error, which the kernel then looks for with another bash
    ],
)
def test_a_shell_that_ends_when_no_process_can_start_keeps_its_state(jail, code):
    with cloche.Sandbox(processes=8, timeout=20) as box:
        box.run("kept=1", language="bash")
        result = box.run(f"for i in {{1..6}}; do sleep 60 & done; {code}", language="bash")
        assert (result.stderr, result.error.kind, result.restarted) == ("", "exit", False)
        assert box.run("echo $kept", language="bash").stdout == "1\n"


# --- what a cell may do to the shell's own


def test_functions_and_aliases_may_have_the_names_of_builtins(sh):
    names = (
        "cd printf source echo set exec declare unset export local shopt compgen mapfile eval read alias return shift"
    )
    sh(f'kept=1; for n in {names} trap; do eval "$n() {{ :; }}"; done')
    assert sh("command echo $kept; command exit 3").stdout == "1\n"
    assert sh("command echo $kept").stdout == "1\n"
    sh("for n in source builtin set exec trap __cloche_end; do builtin alias $n=false; done")
    assert sh("command echo $kept; \\exit 3").stdout == "1\n"
    assert sh("command echo $kept").stdout == "1\n"


@pytest.mark.parametrize(
    "code",
    [
        "unset ${!__cloche_*}; unset -f __cloche_end __cloche_restore __cloche_with",
        "readonly __cloche_running=1 __cloche_flags=x __cloche_at_exit= IFS PATH HOME",
        "IFS=0123456789",
        "PATH=; unset HOME PWD",
        "PS4='$(echo x)'; BASH_ENV=/dev/null; ENV=/dev/null",
        "mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone",
        "shopt -s extdebug nocaseglob failglob; set -T -E",
        "ulimit -f 100; ulimit -n 32",
        "enable -n echo printf",
        "set -o posix",
    ],
)
def test_a_cell_that_changes_the_shell_leaves_the_kernel_alone(sh, code):
    sh(f"kept=yes; {code}")
    assert sh("/bin/echo $kept").stdout == "yes\n"
    assert sh("exit 3").exit_code == 3
    assert sh("/bin/echo on").stdout == "on\n"


def test_a_shell_that_can_tell_nothing_any_more_is_replaced(sh):
    result = sh("builtin() { command echo nonsense; }")
    assert result.restarted
    assert sh("echo on").stdout == "on\n"


def test_nothing_of_the_kernel_is_open_in_what_a_cell_starts(sh):
    assert sh("ls /proc/self/fd | wc -w").stdout == "4\n"


def test_nothing_of_the_host_is_in_the_environment(sh, monkeypatch):
    monkeypatch.setenv("HOST_SECRET", "s3cret")
    assert "HOST_SECRET" not in sh("env").stdout


def test_a_child_that_is_killed_as_it_begins_does_not_take_the_shells_place(shared: cloche.Sandbox) -> None:
    # `sleep 9 & kill $!`: the child still has the kernel's EXIT trap, and bash runs it.  Here it does so every time.
    result = shared.run('eval "set -- $(trap -p EXIT)"; (eval "$3"); echo "on as $$"', language="bash")
    assert result.stdout == f"on as {shared.run('echo $$', language='bash').stdout}"
