"""T1, T3 to T8, T12, T15 from C: raw system calls, what a compiler can be talked into, processes that want to stay."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from pathlib import Path

import pytest
from tests.waiting import eventually

import cloche

X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")

CALLS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long raw(long n, long a, long b, long c, long d, long e) {  /* not libc's: nothing between us and the kernel */
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return n;
}
static void tell(const char *what, long result) {
    printf("%s %s\n", what, result >= 0 ? "done" : strerrorname_np(-result));
    fflush(stdout);
}
#define TRY(what, ...) tell(what, raw(__VA_ARGS__))
static char room[4096];
"""

BACK_DOORS = (
    CALLS
    + r"""
int main(void) {
    long child = raw(56, 0x10000000 | 17, 0, 0, 0, 0);  /* clone with a user namespace */
    if (child == 0) raw(60, 0, 0, 0, 0, 0);
    tell("clone", child);
    TRY("clone3", 435, (long)room, 88, 0, 0, 0);
    TRY("mount", 165, (long)"x", (long)"/tmp", (long)"tmpfs", 0, 0);
    TRY("fsopen", 430, (long)"tmpfs", 0, 0, 0, 0);
    TRY("open_tree", 428, -100, (long)"/usr", 1, 0, 0);
    TRY("pivot_root", 155, (long)".", (long)".", 0, 0, 0);
    TRY("chroot", 161, (long)"/", 0, 0, 0, 0);
    TRY("bpf", 321, 0, (long)room, 128, 0, 0);
    TRY("io_uring_setup", 425, 8, (long)(room + 128), 0, 0, 0);
    TRY("userfaultfd", 323, 1, 0, 0, 0, 0);
    TRY("keyctl", 250, 0, -4, 0, 0, 0);
    TRY("memfd_secret", 447, 0, 0, 0, 0, 0);
    TRY("name_to_handle_at", 303, -100, (long)"/usr", (long)(room + 512), (long)(room + 1024), 0);
    TRY("packet socket", 41, 17, 3, 0, 0, 0);
    TRY("unshare", 272, 0x10000000 | 0x20000, 0, 0, 0, 0);
}
"""
)


@X86
def test_raw_calls_get_no_further_than_those_of_a_library(attack):
    held = attack(BACK_DOORS, language="c")
    assert "done" not in held
    assert len(held.splitlines()) == 15
    assert {"clone done", "unshare done"} <= set(attack(BACK_DOORS, "filter", language="c").splitlines())


AGENT = (
    CALLS
    + r"""
static void look_into(long pid, const char *who) {
    char taken[8];
    struct iovec here = {taken, 8}, there = {room, 8};
    printf("%s: ", who);
    TRY("read", 310, pid, (long)&here, 1, (long)&there, 1);
    printf("%s: ", who);
    TRY("seize", 101, PTRACE_SEIZE, pid, 0, 0, 0);
}
int main(void) {
    long child = raw(57, 0, 0, 0, 0, 0);
    if (child == 0) raw(34, 0, 0, 0, 0, 0);  /* pause */
    look_into(1, "agent");
    look_into(child, "child");
    TRY("kill", 62, 1, 9, 0, 0, 0);
    raw(62, child, 9, 0, 0, 0);
    puts("here");  /* and the agent is there to bring this */
}
"""
)


@X86
def test_the_agent_cannot_be_read_traced_or_killed(attack):
    told = set(attack(AGENT, language="c").splitlines())
    assert {"agent: read EPERM", "agent: seize EPERM", "here"} <= told
    assert {"child: read done", "child: seize done"} <= told  # the proof: where it is allowed, the calls work


READ = CALLS + r"""
int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        long file = raw(257, -100, (long)paths[i], 0, 0, 0);
        long size = file < 0 ? file : raw(0, file, (long)room, sizeof room - 1, 0, 0);
        printf("%s\n", size < 0 ? strerrorname_np(-size) : room);
    }
}
"""  # fmt: skip


@X86
def test_no_file_of_the_host_can_be_read_however_it_is_called(planted, compiled, tmp_path):
    ways = [str(planted), f"/proc/1/root{planted}", f"/proc/self/root/..{planted}", f"/proc/1/cwd/..{planted}"]
    told = cloche.run(READ, language="c", args=ways).stdout.split()
    assert set(told) <= {"ENOENT", "EACCES"}
    assert len(told) == 4
    program = tmp_path / "read"
    program.write_bytes(compiled(READ))
    program.chmod(0o755)
    assert subprocess.run([program, planted], capture_output=True, text=True).stdout == "a secret of the host\n"


@pytest.mark.parametrize(
    "source",
    [
        '#include <stdio.h>\n__asm__(".globl it\\nit: .incbin \\"{}\\"\\n.byte 0");\n'
        "extern char it[];\nint main() {{ return puts(it); }}",
        '#define a secret\nint main() {{ return\n#include "{}"\n; }}',
    ],
    ids=["assembler", "preprocessor"],
)
def test_a_compiler_reads_nothing_of_the_host_either(source, planted, tmp_path):
    code = source.format(planted)
    result = cloche.run(code, language="c")
    assert result.error.kind == "syntax"
    assert "secret of the host" not in result.stdout + result.stderr
    (tmp_path / "main.c").write_text(code)  # the proof: here it does
    here = subprocess.run("gcc main.c; ./a.out", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert "secret of the host" in here.stdout + here.stderr


CONNECT = CALLS + r"""
#include <arpa/inet.h>
int main(void) {
    struct sockaddr_in address = {AF_INET, htons(PORT), {htonl(INADDR_LOOPBACK)}};
    long s = raw(41, AF_INET, SOCK_STREAM, 0, 0, 0);
    TRY("connect", 42, s, (long)&address, sizeof address, 0, 0);
}
"""  # fmt: skip


@X86
def test_a_service_on_the_hosts_loopback_cannot_be_reached(attack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = CONNECT.replace("PORT", str(server.getsockname()[1]))
        assert attack(code, language="c") == "connect ECONNREFUSED"
        assert attack(code, "network", language="c") == "connect done"


POISON = CALLS + r"""
#include <dirent.h>
#include <stdlib.h>
int main(void) {
    const char *folders[] = {"/opt/prepared", "/opt/toolchains", "/usr/include", "/usr/bin", "/tmp"};
    for (int i = 0; i < 5; i++) {
        char path[512];
        DIR *folder = opendir(folders[i]);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {  /* what is there */
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            if (raw(257, -100, (long)path, O_WRONLY | O_APPEND, 0, 0) >= 0) printf("open for writing: %s\n", path);
            snprintf(room, sizeof room, "%s.moved", path);
            if (i < 4 && raw(82, (long)path, (long)room, 0, 0, 0) >= 0) printf("moved: %s\n", path);
        }
        snprintf(path, sizeof path, "%s/new", folders[i]);  /* and what is not */
        TRY(folders[i], 257, -100, (long)path, O_WRONLY | O_CREAT, 0644, 0);
    }
}
"""  # fmt: skip


@X86
def test_what_is_shared_for_building_cannot_be_changed_for_others(attack):
    told = attack(POISON, language="c").splitlines()
    assert told[-1] == "/tmp done"  # the proof: what is its own can be written
    assert all(line.endswith(("EROFS", "EACCES", "EPERM", "ENOENT")) for line in told[:-1])
    assert len(told) == 5


STAYING = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            char *words[] = {"MARK", "600", 0};
            puts("stays");
            fflush(stdout);
            close(0), close(1), close(2);
            execv("/usr/bin/sleep", words);
        }
        _exit(0);
    }
    for (;;) pause();
}
"""


def marked(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(mark.encode()):
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_daemon_that_blocks_all_signals_ends_with_its_sandbox():
    mark = "mark-" + secrets.token_hex(8)
    with cloche.Sandbox() as box:
        running = box.start_program(STAYING.replace("MARK", mark), language="c", timeout=60)
        while getattr(running.next_event(), "kind", "") != "stdout":
            pass
        eventually(lambda: marked(mark))  # the proof: it was there
    assert marked(mark) == []
