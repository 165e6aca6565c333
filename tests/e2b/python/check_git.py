"""Git: what the client makes of commands, in a repository that never leaves the sandbox."""

from __future__ import annotations

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import SandboxException

AUTHOR = {"author_name": "Somebody", "author_email": "somebody@example.com"}


def test_a_repository_from_the_beginning(sandbox: Sandbox) -> None:
    git = sandbox.git
    git.configure_user("Somebody", "somebody@example.com")
    assert git.get_config("user.name") == "Somebody"
    git.init("origin.git", bare=True, initial_branch="main")
    git.clone("/home/user/origin.git", path="work")
    sandbox.files.write("work/a.txt", "1\n")
    assert [one.name for one in git.status("work").file_status] == ["a.txt"]
    git.add("work")
    git.commit("work", "the first")
    git.push("work", remote="origin", branch="main")
    status = git.status("work")
    assert (status.current_branch, status.file_status) == ("main", [])
    assert git.remote_get("work", "origin") == "/home/user/origin.git"

    git.create_branch("work", "other")
    sandbox.files.write("work/a.txt", "2\n")
    git.restore("work", paths=["a.txt"])
    assert sandbox.files.read("work/a.txt") == "1\n"
    git.checkout_branch("work", "main")
    assert (git.branches("work").branches, git.branches("work").current_branch) == (["main", "other"], "main")
    git.delete_branch("work", "other", force=True)
    sandbox.files.write("work/b.txt", "1\n")
    git.add("work", files=["b.txt"])
    git.reset("work")
    git.set_config("pull.rebase", "false")
    git.pull("work", remote="origin", branch="main")
    with pytest.raises(SandboxException):
        git.clone("/home/user/nowhere", path="nothing")


async def test_asyncio(async_sandbox: AsyncSandbox) -> None:
    git = async_sandbox.git
    await git.init("repository", initial_branch="main")
    await async_sandbox.files.write("repository/a", "1")
    await git.add("repository")
    await git.commit("repository", "the first", **AUTHOR)
    assert (await git.branches("repository")).branches == ["main"]
    assert (await git.status("repository")).file_status == []
