"""Advice for programs that fail because a sandbox has no network: downloads, connections, package managers."""

from __future__ import annotations

_AT_THE_END = 4000  # characters of a stream in which the signs count

NONE = "The sandbox has no network access"
_CONNECTIONS = f"{NONE}: pass the data in as files, or allow the host with network=."
_INDEXES = 'or allow the package indexes: network=["packages"]'
# Signs of a package manager that wanted to download something, and the advice.
_PACKAGES = (
    (
        ("No matching distribution found for", "network connectivity is disabled"),
        f"{NONE}: use a library that is installed (`pip list`), upload a wheel and install that file with pip, "
        f"{_INDEXES}.",
    ),
    (
        ("npm error request to ", "npm ERR! request to ", "npm error code ENOTCACHED"),
        f"{NONE}: do without the package, or upload it as a .tgz file and install that file with npm, {_INDEXES}.",
    ),
    (
        ("module lookup disabled by GOPROXY=off", "no required module provides package"),
        f"{NONE}: use Go's standard library, or upload the modules in a folder `vendor` (`go mod vendor`), {_INDEXES}.",
    ),
    (
        ("failed to download from `", "you're using offline mode (--offline)", "no matching package named `"),
        f"{NONE}: use Rust's standard library, or upload the crates in a folder `vendor` (`cargo vendor`), {_INDEXES}.",
    ),
    (
        ("Could not transfer artifact ", "No plugin found for prefix ", "has not been downloaded from it before"),
        f"{NONE}: use Java's standard library, or upload the .jar files and pass them with -cp.",
    ),
    (
        ("Could not find a valid gem ",),
        f"{NONE}: use a gem that is installed (`gem list`), or upload a .gem file and install that file.",
    ),
    (
        ("unable to install packages", "unable to access index for repository", "CRAN without setting a mirror"),
        f"{NONE}: use a package that is installed (`installed.packages()`).",
    ),
    (
        ("/var/lib/dpkg/lock", "/var/lib/apt/lists", "E: Unable to locate package"),
        f"{NONE} and no root user, so it cannot install system packages: use a program that is installed.",
    ),
    (
        ("Read-only file system: '/opt/env/",),
        "Packages of the sandbox's environment cannot be removed: pip can only remove packages that it has installed.",
    ),
)
# Signs of a connection to another machine that failed: of the C library, Python, Node, Java, Go, Rust, R, PHP and
# others.
_FAILED_CONNECTIONS = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "network is unreachable",
    "No route to host",
    "Could not resolve host",
    "Couldn't resolve host",
    "could not translate host name",
    "unable to resolve host address",
    "getaddrinfo EAI_AGAIN",
    "getaddrinfo ENOTFOUND",
    " ENETUNREACH ",
    " EHOSTUNREACH ",
    "UnknownHostException",
    "UnresolvedAddressException",
    "Unknown host ",
    "failed to lookup address information",
    ":53: read: connection refused",
    "ERR_NAME_NOT_RESOLVED",
    "ERR_INTERNET_DISCONNECTED",
    "Could not contact DNS servers",
    "Bad hostname '",
    "host is unreachable",
)
# The messages of curl and R are the same for a server in the sandbox that does not run.
_HERE = r"(?!localhost|127\.|\[?::1|0\.0\.0\.0)"
_AT_AN_ADDRESS = rf"Failed to connect to {_HERE}\S+ port \d|URL '\w+://{_HERE}[^']*': status was 'Couldn't connect"


def advice(text: str) -> str | None:
    """Return the advice if the text, such as standard error, ends with a failure for want of a network."""
    end = text[-_AT_THE_END:]
    for signs, hint in _PACKAGES:
        if any(sign in end for sign in signs):
            return hint
    if any(sign in end for sign in _FAILED_CONNECTIONS):
        return _CONNECTIONS
    from re import search  # imported late: a cold `cloche run` that succeeds does not need it

    return _CONNECTIONS if search(_AT_AN_ADDRESS, end) else None
