"""The egress process: the only way from sandboxes to the network.

One process serves all sandboxes of a Cloche process that may use the network.  It accepts their connections on sockets
that were opened in their network namespaces (walls/jail/listeners.py), decides, and connects or refuses.

    process.py       the channels to the engine, one for each sandbox; when one closes, the sandbox's connections end
    sandbox.py       one sandbox: its policy, listening sockets, connections and bounds; attempts.py: its log
    name_server.py   answers DNS (dns.py) with stand-in addresses (stand_ins.py)
    connection.py    one connection, from its address to its relay; proxy.py: for programs that use HTTP_PROXY
    decision.py      may it connect?  addresses.py: which addresses are closed; resolver.py: looks names up
    client_hello.py  the name that a TLS client wants; waiting.py: looks at bytes without reading them
    splicing.py      joins two connections; pipes.py: the way of the bytes; meter.py: their rate and their quota
    http_relay.py    passes HTTP requests on; http_heads.py: the checks of each; streams.py: the connections
    tls_relay.py     the same for TLS, where a host gets a secret; authority.py: the certificates for that
    host_secrets.py  which host gets which secret; secrets.py: puts values into requests, takes them out of answers
    refusals.py      how a connection is refused

Everything that comes from a sandbox or from a server outside is untrusted: every buffer, count and wait has a bound.

Tests: tests/egress, tests/network
"""
