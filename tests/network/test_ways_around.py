"""Ways around a policy, from inside a sandbox: none of them leads anywhere, and each would if it were allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.network.outside import World

import cloche

TOOLS = Path(__file__).with_name("attack_tools.py")
ALLOWED = (
    *("world.test", "world.test:8080", "world.test:8443", "world.test:6379", "closed.test"),
    "refused.test:8080",
)
ALSO = (*ALLOWED, "other.test", "other.test:8080", "127.77.0.0/16", "world.test:2525")


class Way(NamedTuple):
    """An attack, as an expression, and its control: the same with only the forbidden part left out.

    Without a control, the attack itself must pass in a sandbox with the policy `ALSO`.
    """

    name: str
    attack: str
    control: str = ""


def foreign(name: str, attack: str) -> Way:
    """An attack in which nothing but the foreign name is wrong."""
    return Way(name, attack, attack.replace("other.test", "world.test"))


PAGE = "web('world.test', 80, get('world.test'))"
SHAKEN = "hand('world.test', 443, hello('world.test'))"
TUNNEL = "tunnelled('world.test:443')"
PROXIED = "web(*PROXY, get('world.test', target='http://world.test/'))"

TLS = (
    foreign("foreign SNI", "hand('world.test', 443, hello('other.test'))"),
    Way("no SNI", "hand('world.test', 443, hello(None))", SHAKEN),
    foreign("SNI over many records", "hand('world.test', 443, records(hello('other.test'), 40))"),
    foreign("SNI over many segments", "hand('world.test', 443, *segments(hello('other.test'), 50))"),
    foreign("SNI over both", "hand('world.test', 443, *segments(records(hello('other.test'), 60), 70))"),
    Way(
        "two names in an extension",
        "hand('world.test', 443, named(server_names(b'world.test', b'other.test')))",
        SHAKEN,
    ),
    Way(
        "two extensions with names",
        "hand('world.test', 443, named(server_names(b'world.test'), server_names(b'other.test')))",
        "hand('world.test', 443, named(server_names(b'world.test')))",
    ),
    foreign("SNI in upper case", "hand('world.test', 443, named(server_names(b'other.test'.upper())))"),
    Way("a NUL in SNI", "hand('world.test', 443, named(server_names(b'world.test\\0other.test')))", SHAKEN),
    foreign("foreign SNI on another port", "hand('world.test', 8443, hello('other.test'))"),
    foreign("SNI in bits on another port", "hand('world.test', 8443, *segments(hello('other.test'), 30))"),
    Way("no SNI on another port", "hand('world.test', 8443, hello(None))", SHAKEN.replace("443", "8443")),
    Way("HTTP on port 443", "web('world.test', 443, get('world.test'))", PAGE),
    Way("TLS on port 80", "hand('world.test', 80, hello('world.test'))", SHAKEN),
    Way("a host without a rule", "hand('other.test', 443, hello('other.test'))"),
    Way("the address of an allowed name", "handed(ADDRESS + ':443', hello('world.test'))"),
    Way("a port without a rule", "web('other.test', 8080, get('other.test'))"),
    Way("a port without a listener", "talk('world.test', 2525, b'hello\\n').decode()"),
)

HTTP = (
    foreign("foreign Host", "web('world.test', 80, get('other.test'))"),
    Way("no Host", "web('world.test', 80, b'GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n')", PAGE),
    Way("two Hosts", "web('world.test', 80, get('world.test', 'Host: other.test'))", PAGE),
    Way("Host with another port", "web('world.test', 80, get('world.test:8080'))", PAGE),
    Way("a blank before the colon", "web('world.test', 80, get('world.test', 'Host : other.test'))", PAGE),
    Way("a folded Host", "web('world.test', 80, get('world.test\\r\\n other.test'))", PAGE),
    Way("a bare LF", "web('world.test', 80, get('world.test\\nHost: other.test'))", PAGE),
    Way("a bare CR", "web('world.test', 80, get('world.test\\rHost: other.test'))", PAGE),
    Way("a NUL in Host", "web('world.test', 80, get('world.test\\0other.test'))", PAGE),
    Way("a user in Host", "web('world.test', 80, get('world.test@other.test'))", PAGE),
    foreign("a whole address", "web('world.test', 80, get('world.test', target='http://other.test/'))"),
    Way(
        "a user in an address", "web('world.test', 80, get('world.test', target='http://world.test@other.test/'))", PAGE
    ),
    Way("a foreign scheme", "web('world.test', 80, get('world.test', target='https://world.test/'))", PAGE),
    foreign("another host later", "two('world.test', 80, get('world.test', last=False), get('other.test'))"),
    foreign(
        "another host in a pipeline",
        "two('world.test', 80, get('world.test', last=False), get('other.test'), piped=True)",
    ),
    Way(
        "CONNECT to a server",
        "web('world.test', 80, get('world.test', method='CONNECT', target='other.test:443'))",
        PAGE,
    ),
    Way("HTTP/2 without TLS", "web('world.test', 80, b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes(9))", PAGE),
    Way("a version that is none", "web('world.test', 80, get('world.test').replace(b'1.1', b'1.2'))", PAGE),
    Way("no version", "talk('world.test', 80, b'GET /\\r\\n\\r\\n').count(b'Hello') * 'page'", PAGE),
    foreign("foreign Host on another port", "web('world.test', 8080, get('other.test'))"),
    Way("the method in pieces", "web('world.test', 8080, b'G', get('other.test')[1:])", PAGE.replace("80", "8080")),
    Way(
        "the line in pieces", "web('world.test', 8080, b'FIND / H', b'TTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n')", PAGE
    ),
    foreign("an odd method", "web('world.test', 8080, get('other.test', method='FIND'))"),
    foreign("a method in lower case", "web('world.test', 8080, get('other.test', method='get'))"),
    Way("an empty line first", "web('world.test', 8080, b'\\r\\n' + get('other.test'))", PAGE.replace("80", "8080")),
    *(
        Way(name, f"web('world.test', 8080, {attack})", PAGE.replace("80", "8080"))
        for name, attack in (
            ("blanks for some readers", "get('other.test').replace(b' / ', b'\\xa0/\\xa0')"),
            ("control characters as blanks", "get('other.test').replace(b' / ', b'\\x1f/\\x1c')"),
            ("a control character", "get('other.test', target='/\\x01')"),
            ("a CR in the line", "get('other.test').replace(b' / ', b'\\r/\\r')"),
            ("a long method", "get('other.test', method='X' * 300)"),
            ("another protocol that is HTTP", "get('other.test').replace(b'HTTP/1.1', b'RTSP/1.0')"),
            ("a note for proxies", "b'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\\r\\n' + get('other.test')"),
        )
    ),
    Way(
        "Host of another allowed name",
        "web('refused.test', 8080, get('world.test'))",
        "web('refused.test', 8080, get('refused.test'))",
    ),
)

BODY = "0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n"


def smuggled(name: str, *headers: str, body: str = BODY) -> Way:
    """A request that hides another one in its body, if two readers disagree about its length."""
    listed = ", ".join(map(repr, headers))
    return Way(
        name,
        f"web('world.test', 80, get('world.test', {listed}, method='POST') + b'{body}')",
        "web('world.test', 80, get('world.test', 'Content-Length: 5', method='POST') + b'12345')",
    )


SMUGGLING = (
    smuggled("CL.TE", "Content-Length: 60", "Transfer-Encoding: chunked"),
    smuggled("TE.CL", "Transfer-Encoding: chunked", "Content-Length: 4"),
    smuggled("two encodings", "Transfer-Encoding: identity", "Transfer-Encoding: chunked"),
    smuggled("a listed encoding", "Transfer-Encoding: gzip, chunked"),
    smuggled("an odd encoding", "Transfer-Encoding: xchunked"),
    smuggled("an encoding with a control character", "Transfer-Encoding: \\x0bchunked"),
    smuggled("an encoding with a blank", "Transfer-Encoding : chunked"),
    smuggled("a folded encoding", "Transfer-Encoding:\\r\\n chunked"),
    smuggled("two lengths", "Content-Length: 0", "Content-Length: 60"),
    smuggled("a listed length", "Content-Length: 5, 60"),
    smuggled("a signed length", "Content-Length: +60"),
    smuggled("a hexadecimal length", "Content-Length: 0x3c"),
    smuggled("a negative length", "Content-Length: -1"),
    smuggled("a chunk of odd size", "Transfer-Encoding: chunked", body=f"0x0{BODY}"),
    smuggled("an endless chunk size", "Transfer-Encoding: chunked", body=f"{'0' * 40}{BODY}"),
    smuggled("a chunk extension with LF", "Transfer-Encoding: chunked", body=f"1;a\\nb\\r\\nx\\r\\n{BODY}"),
)

PROXY = (
    foreign("CONNECT to a host without a rule", "tunnelled('other.test:443')"),
    Way("CONNECT to another port", "tunnelled('world.test:22')", TUNNEL),
    Way("CONNECT to an address", "tunnelled(ADDRESS + ':443')"),
    Way("CONNECT to the proxy", "tunnelled('world.test:3128')", TUNNEL),
    Way("CONNECT to the host's loopback", "tunnelled('127.0.0.1:8080')", TUNNEL),
    Way(
        "CONNECT to a name with a closed address",
        "handed('closed.test:443', hello('closed.test'))",
        "handed('world.test:443', hello('world.test'))",
    ),
    *(
        Way(f"CONNECT to {address}", f"tunnelled('{address}:80')", TUNNEL)
        for address in (
            *("2130706433", "0177.0.0.1", "0x7f000001", "127.1", "[::ffff:127.0.0.1]", "[::1]", "[fe80::1%25lo]"),
            *("169.254.169.254", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0", "localhost"),
        )
    ),
    foreign("CONNECT with foreign SNI", "handed('world.test:443', hello('other.test'))"),
    Way(
        "CONNECT in CONNECT",
        "pages(tunnel('world.test:80', b'CONNECT other.test:80 HTTP/1.1\\r\\nHost: world.test\\r\\n\\r\\n'))",
        "pages(tunnel('world.test:80', get('world.test')))",
    ),
    Way("CONNECT with a user", "tunnelled('world.test:443@other.test:443')", TUNNEL),
    Way("CONNECT with a path", "tunnelled('other.test:443/world.test')", TUNNEL),
    Way("CONNECT with two hosts", "tunnelled('other.test:443 world.test:443')", TUNNEL),
    Way("CONNECT with a line more", "tunnelled('other.test:443\\r\\nHost: world.test:443')", TUNNEL),
    foreign("an address for the proxy", "web(*PROXY, get('other.test', target='http://other.test/'))"),
    Way("a foreign Host for the proxy", "web(*PROXY, get('other.test', target='http://world.test/'))", PROXIED),
    Way(
        "two hosts for the proxy",
        "two(*PROXY, get('world.test', target='http://world.test/', last=False),"
        " get('other.test', target='http://other.test/'))",
        PROXIED,
    ),
    Way("a secure address for the proxy", "web(*PROXY, get('world.test', target='https://world.test/'))", PAGE),
)
NAMES = (
    Way("a name with a closed address", "web('closed.test', 80, get('closed.test'))", PAGE),
    foreign("a redirect", "followed('http://world.test/redirect?http://other.test/')"),
    Way(
        "a redirect to a closed address",
        "followed('http://world.test/redirect?http://closed.test/')",
        "followed('http://world.test/redirect?http://world.test/')",
    ),
    foreign("upper case and a dot", "web('other.test'.upper() + '.', 80, get('other.test'))"),
    Way("full-width letters", "web('\\uff4fther.test', 80, get('other.test'))", PAGE),
    Way("a name below", "web('sub.world.test', 80, get('world.test'))", PAGE),
    Way("a name beside", "web('notworld.test', 80, get('world.test'))", PAGE),
)
WAYS = (*TLS, *HTTP, *SMUGGLING, *PROXY, *NAMES)


Attacker = Callable[[str], str]


@pytest.fixture(scope="module")
def attackers(world: World) -> Iterator[dict[bool, Attacker]]:
    """Two sandboxes that run attacks: with the policy that is attacked, and with one that allows more."""

    def attacker(box: cloche.Sandbox) -> Attacker:
        box.files.write("/sandbox/attack_tools.py", TOOLS.read_text())
        assert box.run(f"from attack_tools import *\nADDRESS = {world.address!r}").error is None

        def attack(expression: str) -> str:
            result = box.run(f"tell(lambda: {expression})")
            assert result.error is None, result.error
            return str(json.loads(result.stdout))

        return attack

    with ExitStack() as stack:
        yield {
            is_control: attacker(stack.enter_context(cloche.Sandbox(network=list(policy))))
            for is_control, policy in ((False, ALLOWED), (True, ALSO))
        }


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_way_leads_around(way: Way, attackers: dict[bool, Attacker], world: World) -> None:
    before = world.count()
    assert attackers[False](way.attack) == ""
    arrived = world.events(before)
    assert [each for each in arrived if names_other(each)] == []
    assert attackers[not way.control](way.control or way.attack)


def names_other(event: dict[str, object]) -> bool:
    """Whether something arrived that is not for an allowed host."""
    return event.get("sni", "world.test") not in ("world.test",) or event.get("host", "world.test") != "world.test"
