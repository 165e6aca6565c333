"""The network: a sandbox with a policy tries to reach anything that the policy does not name."""

from __future__ import annotations

from cloche.doctor.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.doctor.scene import Scene

# Each attack has to bring back what a service answers.  Where not even the allowed service answers, nothing is proved.
_TOOLS = """
out = GIVEN["outside"]
port, proxy = out["port"], ("127.0.0.1", 3128)
patience = 20  # for the allowed service, on a host that is busy

def answer(address, *pieces):
    with socket.create_connection(address, patience) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, piece in enumerate(pieces or (b"hello\\n",)):
            time.sleep(0.05 * (number > 0))
            client.sendall(piece)
        found = b""
        while out["greeting"].encode() not in found:
            more = client.recv(4096)
            if not more:
                raise OSError("no answer")
            found += more
    return address

def tunnel(target):
    with socket.create_connection(proxy, patience) as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
        if not client.recv(4096).startswith(b"HTTP/1.1 200"):
            raise OSError("refused")
        client.sendall(b"hello\\n")
        if out["greeting"].encode() not in client.recv(4096):
            raise OSError("no answer")
    return target

answer((out["allowed"], port))
tunnel(f"{out['allowed']}:{port}")
patience = 3
"""

_HOSTS = (
    _TOOLS
    + """
attempt("a name without a rule", answer, (out["other"], port))
attempt("another port", answer, (out["allowed"], out["other_port"]))
attempt("another port, through the proxy", tunnel, f"{out['allowed']}:{out['other_port']}")
attempt("the address of an allowed name", tunnel, f"{out['address']}:{port}")
for words in (f"{out['other']}:{port}", f"{out['allowed']}:{port}@{out['other']}:{port}"):
    attempt(f"CONNECT {words}", tunnel, words)
"""
)

_ADDRESSES = (
    _TOOLS
    + """
attempt("an allowed name with a closed address", answer, (out["closed"], port))
attempt("the host's loopback", answer, ("127.0.0.1", GIVEN["port"]))
closed = out["closed_address"]
number = int.from_bytes(socket.inet_aton(closed), "big")
for address in (closed, f"[::ffff:{closed}]", str(number), hex(number), f"[64:ff9b::{closed}]", f"[::{closed}]"):
    attempt(f"CONNECT {address}", tunnel, f"{address}:{port}")
attempt("the host's loopback, through the proxy", tunnel, f"127.0.0.1:{GIVEN['port']}")

def metadata(address):
    with socket.create_connection((address, 80), 3) as client:
        client.sendall(b"GET /latest/meta-data/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % address.encode())
        head = client.recv(4096)
        if not head or head.startswith(b"HTTP/1.1 403"):
            raise OSError("refused")
        return head

for address in ("169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"):
    attempt(f"the metadata address {address}", metadata, address)
"""
)

_NAMES = (
    _TOOLS
    + """
import ssl

def hello(name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()

host, patience = (out["allowed"], port), 20
answer(host, hello(out["allowed"]))
patience = 3
foreign = hello(out["other"])
attempt("a foreign name in TLS", answer, host, foreign)
attempt("a foreign name in TLS, in pieces", answer, host, foreign[:1], foreign[1:60], foreign[60:])
attempt("no name in TLS", answer, host, hello(None))
request = b"GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % out["other"].encode()
attempt("a foreign Host", answer, host, request)
attempt("a foreign Host, in pieces", answer, host, request[:2], request[2:])
attempt("an address in a request", answer, host, request.replace(b"/ ", b"http://%s/ " % out["other"].encode(), 1))
"""
)

_OTHERS = (
    _TOOLS
    + """
def question(name, kind):
    coded = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    message = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + coded + struct.pack(">BHH", 0, kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.connect(("192.0.2.53", 53))
        client.send(message)
        answer = client.recv(4096)
    if not int.from_bytes(answer[6:8], "big"):
        raise OSError("no records")
    return answer

def true_address(name):
    address = question(name, 1)[-4:]
    if address[:1] == b"\\xc6" and address[1] in (18, 19):
        raise OSError("a stand-in")
    return address

attempt("the true address of a name without a rule", true_address, out["other"])
attempt("the true address of any name", true_address, "tunnel." + out["other"])
for kind in (16, 64, 65, 252, 255):
    attempt(f"a DNS record of kind {kind}", question, out["allowed"], kind)

def datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.3)
        client.connect((out["allowed"], port))
        client.send(bytes(1200))
        return client.recv(4096)

for number in (80, 443, 123, port):
    attempt(f"a datagram to port {number}", datagram, number)
for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 0x300), (2, 2, 1), (10, 2, 58), (40, 1, 0)):
    attempt(f"a socket of kind {family}, {kind}, {protocol}", lambda: socket.socket(family, kind, protocol).close())

def change(kind, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
        number = -struct.unpack_from("i", kernel.recv(4096), 16)[0]
    if number:
        raise OSError(number, os.strerror(number))

attempt("another route", change, 24, bytes([2, 32, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0, 8, 0, 1, 0, 7, 7, 7, 7]))
attempt("another address", change, 20, bytes([2, 32, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 7, 7, 7, 7]))
"""
)

_NEIGHBOUR = (
    _TOOLS
    + """
theirs = GIVEN["neighbour_port"]

def connect(address):
    socket.create_connection((address, theirs), 3).close()
    with socket.create_connection((address, theirs), 3) as client:
        client.sendall(b"hello\\n")
        client.settimeout(0.5)
        client.recv(100)  # the neighbour accepts, and says nothing

for address in ("127.0.0.1", "198.18.0.1", "127.0.0.2", out["allowed"]):
    attempt(f"{address} on the neighbour's port", connect, address)
attempt("the neighbour's port, through the proxy", tunnel, f"127.0.0.1:{theirs}")
"""
)


def _policy(scene: Scene) -> list[str]:
    outside = scene.outside
    return [
        *(outside.allowed, f"{outside.allowed}:{outside.port}", f"{outside.closed}:{outside.port}"),
        *(f"{outside.allowed}:{port}" for port in (scene.port, scene.neighbour_port)),
    ]


PROBES = (
    Probe("T8", "A network policy opens no other way out: DNS, datagrams, sockets, routes", _OTHERS, policy=_policy),
    Probe("T35", "No name or notation leads to a closed address", _ADDRESSES, policy=_policy),
    Probe("T50", "A network policy lets out to nothing but its hosts and ports", _HOSTS, policy=_policy),
    Probe("T50", "TLS and HTTP are for the host that the connection is for", _NAMES, policy=_policy),
    Probe("T50", "With a policy, another sandbox's ports are as closed as without", _NEIGHBOUR, policy=_policy),
)
