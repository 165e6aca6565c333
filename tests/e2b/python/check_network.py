"""What a sandbox of E2B's client may reach, when it is made and while it lives."""

from __future__ import annotations

from e2b_code_interpreter import Sandbox

GET = """
import urllib.error, urllib.request

def status(host):
    try:
        return urllib.request.urlopen(f"http://{host}/", timeout=5).status
    except urllib.error.HTTPError as problem:
        return problem.code
    except urllib.error.URLError:
        return 0

"""
ALL = "0.0.0.0/0"
ONE, OTHER = "one.example.org", "other.example.org"


def are_refused(sandbox: Sandbox, *hosts: str) -> list[bool]:
    """Whether the policy refuses each host; one that it allows has no address where the tests run, or answers."""
    found = sandbox.run_code(f"{GET}[status(host) == 403 for host in {hosts!r}]")
    assert found.error is None, found.error
    return [word.strip() == "True" for word in (found.text or "").strip("[]").split(",")]


def test_only_the_allowed_host_is_reached_and_an_update_replaces_it() -> None:
    with Sandbox.create(allow_internet_access=False, network={"allow_out": [ONE]}) as sandbox:
        info = sandbox.get_info()
        assert info.allow_internet_access is False
        assert info.network is not None
        assert info.network["allow_out"] == [ONE]
        assert are_refused(sandbox, ONE, OTHER) == [False, True]

        sandbox.update_network({"allow_out": [OTHER], "deny_out": [ALL]})
        assert are_refused(sandbox, ONE, OTHER) == [True, False]

        sandbox.update_network({})  # everything that the server allows
        assert sandbox.get_info().allow_internet_access is True
        assert are_refused(sandbox, ONE, OTHER) == [False, False]


def test_a_plain_sandbox_reaches_public_hosts_and_no_private_ones() -> None:
    with Sandbox.create() as sandbox:
        assert are_refused(sandbox, ONE, "169.254.169.254", "10.0.0.1") == [False, True, True]
