"""A sandbox has no network: programs that want one fail at once, and the hint says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cloche
from cloche.engine import no_network

pytestmark = pytest.mark.embedded

NONE = "The sandbox has no network access"

# The tool, the command, and a word of the advice.
INSTALLING = {
    "pip": ("pip download no-such-package", "upload a wheel"),
    "python -m pip": ("python -m pip download no-such-package", "upload a wheel"),
    "npm": ("npm view no-such-package", ".tgz"),
    "npx": ("npx --yes --package no-such-package --call true", ".tgz"),
    "gem": ("gem install no-such-package", ".gem"),
    "apt-get": ("apt-get install -y no-such-package", "system packages"),
    "R": ("Rscript -e 'install.packages(\"nosuch\")'", "installed.packages()"),
    "git": ("git clone https://example.com/a/b", "as files"),
    "curl": ("curl --silent --show-error http://192.0.2.1", "as files"),
}

# The last words of programs that wanted to connect to a name or an address.
LAST_WORDS = {
    "Java": 'Exception in thread "main" java.net.UnknownHostException: example.com\n\tat java.base/sun.nio.ch\n',
    "Java's HttpClient": "java.net.ConnectException\nCaused by: java.nio.channels.UnresolvedAddressException\n",
    "Go": 'Get "https://example.com": dial tcp: lookup example.com on [::1]:53: read udp [::1]:1->[::1]:53: read: '
    "connection refused\n",
    "Rust": 'error: "failed to lookup address information: Temporary failure in name resolution"\n',
    "PHP": "php_network_getaddresses: getaddrinfo failed: Temporary failure in name resolution\n",
    "Perl": "cannot: IO::Socket::INET: Bad hostname 'example.com' at /sandbox/code/main.pl line 1.\n",
    "Node, a datagram": "Error: send ENETUNREACH 192.0.2.1:53\n    at doSend (node:dgram:727:16)\n",
    "R": "In download.file(x) :\n  URL 'http://192.0.2.1/x': status was 'Couldn't connect to server'\n",
    "wget": "wget: unable to resolve host address 'example.com'\n",
    "ssh": "ssh: Could not resolve hostname example.com: Temporary failure in name resolution\n",
}

CONNECTING = {
    "a name": ("python", "import urllib.request; urllib.request.urlopen('https://example.com')"),
    "an address": ("python", "import socket; socket.create_connection(('192.0.2.1', 443))"),
    "an IPv6 address": ("python", "import socket; socket.create_connection(('2001:db8::1', 443))"),
    "a datagram": ("python", "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 53))"),
    "Node": ("javascript", "await fetch('https://example.com')"),
    "Bash": ("bash", "exec 3<> /dev/tcp/192.0.2.1/80 || exit 1"),
}


@pytest.fixture(scope="module")
def shared(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(timeout=60) as box:
        yield box


@pytest.mark.parametrize("tool", INSTALLING)
def test_package_managers_do_not_try_again_and_the_hint_says_why(shared, tool):
    command, advice = INSTALLING[tool]
    if shared.commands.run(f"command -v {tool.split()[0]}").exit_code:
        pytest.skip(f"{tool} is not installed on this host")
    done = shared.commands.run(command)
    assert done.error is not None
    assert done.error.hint.startswith(NONE)
    assert advice in done.error.hint
    assert "tries remaining" not in done.stderr
    assert "Retrying" not in done.stderr


def test_what_maven_says_on_standard_output_counts_if_standard_error_says_nothing(shared):
    # As Maven does, which takes many seconds; it also resets the colours of both streams.
    end = r"\033[0m[ERROR] No plugin found for prefix 'dependency'\n\033[0m"
    command = f'printf "{end}"; printf "\\033[0m" >&2; exit 1'
    for done in (shared.commands.run(command), shared.run(command, language="bash")):
        assert done.error is not None
        assert "upload the .jar files" in done.error.hint
    done = shared.commands.run(f'printf "{end}"; echo "another reason" >&2; exit 1')
    assert done.error is not None
    assert done.error.hint == "Its standard error says more."


@pytest.mark.parametrize("what", CONNECTING)
def test_a_connection_fails_and_the_hint_says_why(shared, what):
    language, code = CONNECTING[what]
    error = shared.run(code, language=language).error
    assert error is not None
    if error.kind == "unavailable":
        pytest.skip(f"{language} is not installed on this host")
    assert error.hint == f"{NONE}: pass the data in as files, or allow the host with network=."


def test_a_program_whose_pip_fails_gets_the_same_hint(jail):
    program = "import subprocess; subprocess.run(['pip', 'download', 'no-such-package'], check=True)"
    error = cloche.run(program, timeout=60).error
    assert error is not None
    assert error.name == "subprocess.CalledProcessError"
    assert "upload a wheel" in error.hint


@pytest.mark.parametrize("language", LAST_WORDS)
def test_the_last_words_of_other_languages_are_understood(language):
    assert (
        no_network.advice(LAST_WORDS[language])
        == f"{NONE}: pass the data in as files, or allow the host with network=."
    )


@pytest.mark.parametrize(
    "stderr",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused\n",
        "curl: (7) Failed to connect to localhost port 80 after 0 ms: Couldn't connect to server\n",
        "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server\n",
        "URL 'http://localhost:80/x': status was 'Couldn't connect to server'\n",
        "ValueError: the image has a resolution of 0\n",
    ],
)
def test_a_server_inside_that_does_not_run_is_another_matter(stderr):
    assert no_network.advice(stderr) is None
