"""Connections of every family, and what could be learned or reached through the one socket a worker has."""

from attack.model import Area, Attempt, outcomes

network = Area("network")

REFUSED = outcomes("EPERM")

# Numbers, since not every Python names every family.
FAMILIES = {
    "unix": 1,
    "internet": 2,
    "amateur radio": 3,
    "internet 6": 10,
    "key management": 15,
    "netlink": 16,
    "packet": 17,
    "rds": 21,
    "can": 29,
    "tipc": 30,
    "bluetooth": 31,
    "kernel cryptography": 38,
    "virtual machine": 40,
    "kernel connection": 41,
    "qualcomm router": 42,
    "shared memory": 43,
    "express data path": 44,
    "management": 45,
}
ORDINARY = {"unix", "internet", "internet 6", "netlink"}

ATTEMPTS: tuple[Attempt, ...] = (
    network.control(
        "a pair of sockets talks",
        "(lambda one, two: one.send(b'ping') and two.recv(9))(*socket.socketpair())",
        outcomes("got b'ping'"),
        outside=True,
    ),
    *(
        network.attack(
            f"open a socket of family {name}",
            f"call('socket', {number}, {2 if name == 'netlink' else 1}, 0)",
            REFUSED,
            outside=name in ORDINARY,
        )
        for name, number in FAMILIES.items()
    ),
    network.attack("open a datagram socket", "call('socket', 2, 2, 0)", REFUSED, outside=True),
    network.attack("open a raw socket", "call('socket', 2, 3, 1)", REFUSED),
    *(
        network.attack(
            f"connect to the gateway by {name}",
            f"reach({family}, {address})",
            REFUSED,
            outside=True,
            outside_touches=(f"connections by {name}",),
        )
        for name, family, address in (
            ("internet", "socket.AF_INET", "('127.0.0.1', internet_port)"),
            ("internet 6", "socket.AF_INET6", "('::1', internet6_port)"),
            ("a named socket", "socket.AF_UNIX", "f'{host}/socket'"),
            ("an abstract socket", "socket.AF_UNIX", "chr(0) + abstract_name"),
        )
    ),
    network.attack(
        "send a datagram to the gateway",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', datagram_port))",
        REFUSED,
        outside=True,
        outside_touches=("connections by datagram",),
    ),
    network.attack(
        "send a datagram from a pair",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', f'{host}/datagrams')",
        REFUSED,
    ),
    network.attack("make an internet pair", "call('socketpair', 2, 1, 0, bytes(8))", REFUSED),
    network.attack(
        "look up a name", "socket.getaddrinfo('localhost', 80, socket.AF_INET, 1)", outcomes("gaierror"), outside=True
    ),
    network.attack("list the interfaces", "socket.if_nameindex()", REFUSED, outside=True),
    network.attack(
        "connect the own socket elsewhere",
        "call('connect', 3, named(f'{host}/socket'), 110)",
        REFUSED,
    ),
    network.attack(
        "connect an end of a pair elsewhere",
        "call('connect', socket.socketpair()[0].detach(), named(f'{host}/socket'), 110)",
        REFUSED,
    ),
    network.attack("bind a name", "call('bind', 3, named('name'), 110)", REFUSED),
    network.attack("listen", "call('listen', 3, 1)", REFUSED),
    network.attack("accept", "call('accept4', 3, 0, 0, 0)", REFUSED),
    network.attack("learn who the gateway is", "call('getsockopt', 3, 1, 17, bytes(12), bytes(4))", REFUSED),
    network.attack(
        "take a descriptor of the gateway's process",
        "call('getsockopt', 3, 1, 77, bytes(4), struct.pack('i', 4))",
        REFUSED,
    ),
    network.attack(
        "ask for credentials with each message", "call('setsockopt', 3, 1, 16, struct.pack('i', 1), 4)", REFUSED
    ),
    network.attack("attach a filter to the socket", "call('setsockopt', 3, 1, 26, bytes(16), 16)", REFUSED),
    network.attack("send out of band", "call('sendto', 3, b'x', 1, 1, 0, 0)", REFUSED),
    network.attack("receive out of band", "call('recvfrom', 3, bytes(8), 1, 1, 0, 0)", REFUSED),
    network.attack("send many messages at once", "call('sendmmsg', 3, bytes(64), 1, 0)", REFUSED),
    network.attack(
        "forge credentials",
        "socket.socketpair()[0].sendmsg([b'x'], [(1, 2, struct.pack('3i', victim, 0, 0))])",
        # User 0, which it claims to be, does not even exist in an unprivileged user's namespace.
        lambda facts: frozenset(["EINVAL" if (facts.user, facts.tier) == ("unprivileged", "namespace") else "EPERM"]),
    ),
)
