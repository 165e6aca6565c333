"""Filters rot: real languages, libraries and tools must go on working under this one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloche.walls.jail import filter, linux
from cloche.walls.jail.root import UID


def confine() -> None:
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    filter.load(filter.program())


def run(*command: str, cwd: Path | None = None, user: int | None = None, **environment: str) -> str:
    """The output of a command that runs, and succeeds, under the filter."""
    done = subprocess.run(
        command,
        user=user,
        group=user,
        preexec_fn=confine,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


PYTHON = {
    "threads": """
        import threading
        threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(20)]
        [t.start() for t in threads]; [t.join() for t in threads]
    """,
    "subprocess": """
        import subprocess, sys
        assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\\n"
        assert subprocess.run("echo a | tr a b", shell=True, capture_output=True).stdout == b"b\\n"
        subprocess.run(["true"], start_new_session=True, preexec_fn=lambda: None, check=True)
    """,
    "multiprocessing": """
        import multiprocessing, multiprocessing.shared_memory
        if __name__ == "__main__":
            for how in ("fork", "forkserver"):
                with multiprocessing.get_context(how).Pool(2) as pool:
                    assert pool.map(abs, [-1, -2]) == [1, 2]
            block = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
            block.close(); block.unlink()
    """,
    "asyncio": """
        import asyncio, sys
        async def main():
            server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            writer.close(); server.close()
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            assert (await child.communicate(b"x"))[0] == b"x"
            assert await asyncio.to_thread(abs, -1) == 1
        asyncio.run(main())
    """,
    "names and interfaces": """
        import socket
        assert socket.if_nameindex()
        assert socket.getaddrinfo("localhost", 80)
        socket.socketpair()
        socket.create_server(("::1", 0), family=socket.AF_INET6) if socket.has_ipv6 else None
    """,
    "sqlite": """
        import sqlite3
        db = sqlite3.connect("test.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t (a)")
        db.executemany("insert into t values (?)", [(i,) for i in range(100)]); db.commit()
        assert db.execute("select count(*) from t").fetchone() == (100,)
    """,
    "terminal": """
        import os, pty, termios
        pid, fd = pty.fork()
        if not pid:
            termios.tcgetattr(0); os.execlp("stty", "stty", "size")
        out = b""
        try:
            while chunk := os.read(fd, 100): out += chunk
        except OSError: pass
        assert os.waitpid(pid, 0)[1] == 0, out
    """,
    "small things": """
        import os, mmap, resource, signal, shutil, tempfile, time, select, fcntl, platform
        os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.getloadavg()
        resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
        resource.prlimit(0, resource.RLIMIT_CORE)
        os.memfd_create("x"); os.eventfd(0); os.pidfd_open(os.getpid()); os.urandom(8)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        signal.setitimer(signal.ITIMER_REAL, 0.01); signal.sigwait({signal.SIGALRM})
        with tempfile.TemporaryDirectory() as d:
            os.mkfifo(d + "/f"); open(d + "/a", "w").write("a"); shutil.copy2(d + "/a", d + "/b")
            os.posix_fallocate(os.open(d + "/a", os.O_RDWR), 0, 10)
            fcntl.flock(open(d + "/a"), fcntl.LOCK_EX); os.chmod(d + "/a", 0o600); os.sync()
        platform.platform(); time.sleep(0.001); select.epoll()
    """,
}


@pytest.mark.parametrize("subject", PYTHON)
def test_python_works(subject, tmp_path):
    script = tmp_path / "script.py"
    lines = PYTHON[subject].strip("\n").splitlines()
    script.write_text("\n".join(line[8:] for line in lines))
    run(sys.executable, "-W", "ignore", str(script), cwd=tmp_path)


def test_numpy_works():
    if not importlib.util.find_spec("numpy"):
        pytest.skip("NumPy is not installed beside the tests")
    assert run(sys.executable, "-c", "import numpy as n; print((n.ones((500, 500)) @ n.ones((500, 500))).sum())")


def test_duckdb_works(tmp_path):
    if not importlib.util.find_spec("duckdb"):
        pytest.skip("DuckDB is not installed beside the tests")
    code = "import duckdb; print(duckdb.connect('a.db').execute('select sum(range) from range(1000000)').fetchone()[0])"
    assert run(sys.executable, "-c", code, cwd=tmp_path) == "499999500000"


@needs("bash")
def test_bash_pipelines_work():
    assert (
        run("bash", "-c", "set -o pipefail; seq 1000 | sort -rn | (head -1; cat >/dev/null) | tee >(cat >&2)") == "1000"
    )
    assert (
        run("bash", "-c", "ulimit -n 100; nice -n 5 sleep 0 & wait; cat <<<ok; mkfifo /dev/null || echo ok") == "ok\nok"
    )


@pytest.fixture
def folder_of_a_sandbox() -> Iterator[Path]:
    """A folder of the user that sandboxes have, whose id is the only one that the filter lets a program set."""
    if os.getuid() not in (0, UID):
        pytest.skip(f"make sets its own user id, and the filter allows only {UID}")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, UID, UID)
        yield Path(folder)


@needs("gcc", "make")
def test_gcc_make_and_openmp_work(folder_of_a_sandbox):
    tmp_path = folder_of_a_sandbox
    (tmp_path / "a.c").write_text("""
        #include <stdio.h>
        int main() {
            int sum = 0;
            #pragma omp parallel for reduction(+:sum)
            for (int i = 0; i < 100; i++) sum += i;
            printf("%d", sum);
        }
    """)
    (tmp_path / "Makefile").write_text("all: a b\na b: a.c\n\tgcc -O2 -fopenmp -fsanitize=address -o $@ a.c\n")
    run("make", "-j2", cwd=tmp_path, user=UID)
    assert run(str(tmp_path / "a"), user=UID, OMP_NUM_THREADS="4", OMP_PROC_BIND="true") == "4950"


@needs("git")
def test_git_works(tmp_path):
    commands = (
        "git init -q . && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git gc -q"
    )
    run("sh", "-c", f"{commands} && git clone -q . ../clone && git log --oneline", cwd=tmp_path, HOME=str(tmp_path))


@needs("node")
def test_node_works(tmp_path):
    (tmp_path / "a.js").write_text("""
        const { Worker } = require('worker_threads'), http = require('http'), fs = require('fs')
        const { execFileSync } = require('child_process')
        require('os').networkInterfaces(); require('os').setPriority(5)
        fs.watch('.').close(); fs.writeFileSync('x', execFileSync('echo', ['hi']))
        const server = http.createServer((_, answer) => answer.end('ok')).listen(0, '127.0.0.1', () =>
            http.get({ port: server.address().port, host: '127.0.0.1' }, r => r.on('data', data => {
                new Worker('1 + 1', { eval: true }).on('exit', () => { console.log(String(data)); process.exit() })
            })))
    """)
    assert run("node", "a.js", cwd=tmp_path) == "ok"


@needs("go")
def test_go_works(tmp_path):
    # Go asks for MPTCP first (since 1.24 for listeners).  The filter refuses it, and Go must fall back to TCP.
    (tmp_path / "a.go").write_text("""package main
        import ("fmt"; "net"; "os/exec"; "sync")
        func main() {
            l, err := net.Listen("tcp", "127.0.0.1:0")
            if err != nil { panic(err) }
            go func() { c, _ := l.Accept(); c.Write([]byte("ok")); c.Close() }()
            c, err := net.Dial("tcp", l.Addr().String())
            if err != nil { panic(err) }
            b := make([]byte, 2); c.Read(b)
            var w sync.WaitGroup
            for i := 0; i < 50; i++ { w.Add(1); go w.Done() }
            w.Wait(); net.Interfaces()
            if err := exec.Command("true").Run(); err != nil { panic(err) }
            fmt.Println(string(b))
        }""")
    assert run("go", "run", "a.go", cwd=tmp_path, GOTOOLCHAIN="local", GODEBUG="multipathtcp=1") == "ok"


@needs("rustc")
def test_rust_works(tmp_path):
    (tmp_path / "a.rs").write_text("""fn main() {
        let threads: Vec<_> = (0..8).map(|i| std::thread::spawn(move || i)).collect();
        let sum: i32 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert!(std::process::Command::new("true").status().unwrap().success());
        println!("{sum}");
    }""")
    run("rustc", "-O", "a.rs", cwd=tmp_path)
    assert run(str(tmp_path / "a")) == "28"


@needs("java", "javac")
def test_java_works(tmp_path):
    (tmp_path / "A.java").write_text("""
        class A { public static void main(String[] a) throws Exception {
            try (var server = new java.net.ServerSocket(0)) { new java.net.Socket("localhost", server.getLocalPort()); }
            new ProcessBuilder("true").start().waitFor();
            System.out.println(java.util.stream.IntStream.range(0, 1000).parallel().sum());
        } }""")
    assert run("java", "-XX:+UseNUMA", "-XX:+UseParallelGC", "A.java", cwd=tmp_path) == "499500"


@needs("strace")
def test_tracing_works():
    run("strace", "-f", "-o", "/dev/null", "sh", "-c", "true | true")
