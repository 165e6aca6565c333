"""Templates of E2B's client: built in the server's sandboxes, found by name and tag, and started from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from e2b.connection_config import ConnectionConfig
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import (
    AsyncTemplate,
    BuildException,
    SandboxException,
    Template,
    TemplateException,
    wait_for_file,
    wait_for_port,
    wait_for_process,
    wait_for_url,
)

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def new_name() -> Iterator[Callable[[], str]]:
    """Makes names for templates, which are deleted at the end, as E2B's command line does it."""
    made: list[str] = []

    def make() -> str:
        made.append(f"check-{uuid4().hex[:12]}")
        return made[-1]

    yield make
    config = ConnectionConfig()
    for name in made:
        httpx.delete(f"{config.api_url}/templates/{name}", headers={"X-API-KEY": config.api_key or ""})


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A folder with the files of a project."""
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("print('main')\n")
    (tmp_path / "src" / "deep" / "data.txt").write_text("data\n")
    (tmp_path / "src" / "link").symlink_to("deep/data.txt")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho run\n")
    (tmp_path / "one.cfg").write_text("1")
    (tmp_path / "two.cfg").write_text("2")
    (tmp_path / "ignored.log").write_text("no")
    (tmp_path / ".dockerignore").write_text("*.log\n")
    (tmp_path / "requirements.txt").write_text("# nothing new\nsix\n")
    (tmp_path / "Dockerfile").write_text(
        f"FROM python:{PYTHON}-slim\nWORKDIR /service\nCOPY src /service/src\nENV MODE=docker\n"
        "RUN echo made > made.txt\n"
    )
    return tmp_path


def test_a_template_has_its_files_variables_and_packages(new_name: Callable[[], str], context: Path) -> None:
    template = (
        Template(file_context_path=context)
        .from_base_image()
        .copy("src", "/app/src")
        .copy("run.sh", "/app/bin/run", mode=0o755)
        .copy_items([{"src": "*.cfg", "dest": "/app/etc/"}, {"src": "requirements.txt", "dest": "."}])
        .set_envs({"GREETING": "hello world", "PATH": "/app/bin:$PATH"})
        .set_workdir("/app")
        .run_cmd(["mkdir made", "echo $GREETING > made/greeting", "whoami > made/user"])
        .run_cmd("sudo -n true && echo $HOME > made/home", user="root")
        .make_dir(["deep/a", "deep/b"], mode=0o700)
        .make_symlink("made/greeting", "greeting")
        .rename("made/user", "made/who")
        .remove("deep/b", recursive=True)
        .apt_install(["bash", "coreutils"])
        .pip_install("six")
        .pip_install(["-r", "/home/user/requirements.txt"])
        .run_cmd("python3 -c 'import six'")
    )
    lines: list[Any] = []
    name = new_name()
    info = Template.build(template, name, cpu_count=1, memory_mb=384, on_build_logs=lines.append)
    assert (info.template_id, info.name, info.tags) == (name, name, ["default"])
    messages = [line.message for line in lines]
    assert any("Python" in message and "e2bdev/base" in message for message in messages)
    assert "$ COPY src /app/src" in messages
    assert all(isinstance(line.timestamp, datetime) and line.level in ("debug", "info") for line in lines)

    with Sandbox.create(name, envs={"MORE": "1"}, metadata={"for": "test"}, timeout=60) as sandbox:
        shown = sandbox.commands.run("pwd; run; cat greeting made/who made/home src/link etc/one.cfg; echo $MORE")
        assert shown.stdout.split("\n")[:7] == ["/app", "run", "hello world", "user", "/root", "data", "11"]
        listed = sandbox.commands.run("ls -a . deep; find /app -name '*.log'").stdout
        assert "ignored.log" not in listed
        assert "b" not in listed.split()
        assert sandbox.files.get_info("/app/deep/a").permissions == "drwx------"
        assert sandbox.run_code("import six, os; os.environ['GREETING']").text == "hello world"
        info_now = sandbox.get_info()
        assert (info_now.template_id, info_now.cpu_count, info_now.memory_mb) == (name, 1, 384)
        assert info_now.metadata == {"for": "test"}
        copies = sandbox.fork()
        try:
            assert copies[0].commands.run("run; pwd").stdout == "run\n/app\n"
        finally:
            copies[0].kill()


def test_tags_name_builds(new_name: Callable[[], str]) -> None:
    name = new_name()
    assert not Template.exists(name)
    first = Template.build(Template().from_base_image().run_cmd("echo 1 > /home/user/n"), name, tags=["v1", "stable"])
    assert first.tags == ["v1", "stable"]
    assert Template.exists(name)
    assert Template.exists(f"{name}:v1")
    assert not Template.exists(f"{name}:v2")
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(name)  # no build has the tag `default`
    second = Template.build(
        Template().from_template(f"{name}:v1").run_cmd("echo 2 >> n"), f"{name}:v2", skip_cache=True
    )
    assert second.build_id != first.build_id
    assert Template.assign_tags(f"{name}:v2", ["default", "stable"]).build_id == second.build_id
    found = {tag.tag: tag.build_id for tag in Template.get_tags(name)}
    assert found == {
        "v1": first.build_id,
        **dict.fromkeys(("v2", "default", "stable"), second.build_id),
    }
    with Sandbox.create(name) as sandbox:
        assert sandbox.files.read("n") == "1\n2\n"
    Template.remove_tags(name, ["v1", "default"])
    assert {tag.tag for tag in Template.get_tags(name)} == {"v2", "stable"}
    with pytest.raises(TemplateException):
        Template.remove_tags(name, "v1")
    with pytest.raises(TemplateException):
        Template.assign_tags("no-such:v1", "v2")


def test_a_build_goes_on_in_the_background(new_name: Callable[[], str]) -> None:
    name = new_name()
    info = Template.build_in_background(Template().from_base_image().run_cmd("echo text; echo more >&2"), alias=name)
    seen: list[Any] = []
    status = Template.get_build_status(info)
    while status.status in ("waiting", "building"):
        seen += status.log_entries
        status = Template.get_build_status(info, logs_offset=len(seen))
    seen += status.log_entries
    assert status.status == "ready"
    assert {"text", "more"} <= {entry.message for entry in seen}
    assert [entry.timestamp for entry in seen] == sorted(entry.timestamp for entry in seen)
    info.build_id = str(uuid4())
    with pytest.raises(BuildException):
        Template.get_build_status(info)


@pytest.mark.parametrize(
    ("ready", "start"),
    [
        (wait_for_port(8123), "python3 -m http.server 8123"),
        (wait_for_url("http://localhost:8124/"), "python3 -m http.server 8124"),
        (wait_for_file("/tmp/is-ready"), "touch /tmp/is-ready; exec tail -f /dev/null"),
        (wait_for_process("tail"), "exec tail -f /dev/null"),
    ],
    ids=["port", "url", "file", "process"],
)
def test_a_sandbox_starts_with_its_command_running(new_name: Callable[[], str], ready: Any, start: str) -> None:
    name = new_name()
    Template.build(Template().from_base_image().set_start_cmd(start, ready), name)
    with Sandbox.create(name) as sandbox:
        assert sandbox.commands.run(ready.get_cmd()).exit_code == 0
        program = start.replace("exec ", "").split(";")[-1].split()[0]
        assert sandbox.commands.run(f"pgrep {program}").stdout


def test_a_sandbox_whose_command_fails_is_not_made(new_name: Callable[[], str]) -> None:
    name = new_name()
    start = "[ ! -e ~/tried ] && touch ~/tried /tmp/up && exec sleep 60 || { echo not again; exit 7; }"
    Template.build(Template().from_base_image().set_start_cmd(start, wait_for_file("/tmp/up")), name)
    with pytest.raises(SandboxException, match=r"exit code 7.*\n*not again"):
        Sandbox.create(name)
    pages = Sandbox.list()
    assert name not in [each.template_id for each in pages.next_items()]


def test_a_dockerfile_is_a_template(new_name: Callable[[], str], context: Path) -> None:
    name = new_name()
    Template.build(Template(file_context_path=context).from_dockerfile(str(context / "Dockerfile")), name)
    with Sandbox.create(name) as sandbox:
        shown = sandbox.commands.run("cat /service/made.txt; python3 /service/src/main.py; echo $MODE; whoami; pwd")
        assert shown.stdout == "made\nmain\ndocker\nuser\n/service\n"


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: Template().from_base_image().run_cmd("echo fine").run_cmd("echo why >&2; exit 3"), "why"),
        (lambda: Template().from_base_image().apt_install(["bash", "no-such-package"]), "no-such-package"),
        (lambda: Template().from_base_image().pip_install("no-such-package-in-any-index==99"), "no-such-package"),
        (lambda: Template().from_base_image().set_user("postgres"), "postgres"),
        (lambda: Template().from_base_image().set_start_cmd("echo broken >&2; exit 4", wait_for_file("/x")), "broken"),
        (lambda: Template().from_python_image("2.7"), f"python:{PYTHON}"),
        (lambda: Template().from_alpine_image(), "from_base_image"),
        (lambda: Template().from_image("ghcr.io/some/image:1"), "ghcr.io/some/image:1"),
        (lambda: Template().from_image("python:3", "me", "secret"), "fromImageRegistry"),
        (lambda: Template().from_template("no-such-template"), "no-such-template"),
        (lambda: Template().from_template("mcp-gateway").add_mcp_server("exa"), "mcp"),
        (lambda: Template().from_base_image().bun_install("x"), "bun"),
    ],
    ids=["run", "apt", "pip", "user", "start", "python", "alpine", "image", "registry", "template", "mcp", "bun"],
)
def test_a_step_that_fails_is_named(new_name: Callable[[], str], build: Callable[[], Any], reason: str) -> None:
    name = new_name()
    with pytest.raises(BuildException) as caught:
        Template.build(build(), name)
    assert reason in str(caught.value)
    assert caught.traceback[-1].path == Path(__file__)  # the client points to the step in the program
    assert not Template.exists(name)
    with pytest.raises(SandboxException, match="404"):
        Sandbox.create(name)


def test_names_of_the_server_are_taken() -> None:
    with pytest.raises(BuildException, match="belongs to"):
        Template.build(Template().from_base_image(), "base")
    with pytest.raises(BuildException, match="Use lower-case"):
        Template.build(Template().from_base_image(), "no spaces")
    with pytest.raises(BuildException, match="limited"):
        Template.build(Template().from_base_image(), "much-too-large", memory_mb=1 << 30)


async def test_all_of_it_asynchronously(new_name: Callable[[], str], context: Path) -> None:
    name = new_name()
    template = AsyncTemplate(file_context_path=context).from_python_image(PYTHON).copy("one.cfg", "x/y")
    info = await AsyncTemplate.build(template, f"{name}:a")
    assert (await AsyncTemplate.get_build_status(info)).status == "ready"
    assert await AsyncTemplate.exists(name)
    await AsyncTemplate.assign_tags(f"{name}:a", "b")
    assert {tag.tag for tag in await AsyncTemplate.get_tags(name)} == {"a", "b"}
    async with await AsyncSandbox.create(f"{name}:b") as sandbox:
        assert await sandbox.files.read("x/y") == "1"
