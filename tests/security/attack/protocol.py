"""What a worker could write to its connection, and what the code could do to the guest around it.

The result is the worker's own word, so a forged `done` frame is believed; it must do nothing else. Whatever is not a
frame of the protocol ends the run.
"""

from attack.model import Area, Attempt, Expectation, outcomes

protocol = Area("protocol")
guest = Area("guest")

BROKEN = outcomes("broken:protocol:ProtocolBroken")
DONE = b'{"t":"done","ok":true,"result":%s,"cpu_seconds":0.1,"memory_peak_bytes":1}'
DONE_CODE = f"def done(result): return {DONE!r} % result\n"
HANG = "\ntime.sleep(60)"


def _wire(
    name: str, code: str, expect: Expectation = BROKEN, *, then: str = HANG, wall_seconds: float = 10.0, **more: object
) -> Attempt:
    limits = {"wall_seconds": wall_seconds, "tool_calls": 300}
    return protocol.block(name, DONE_CODE + code + then, expect, limits=limits, **more)


FRAMES: tuple[Attempt, ...] = (
    _wire(
        "a call written by hand is answered",
        'send(b\'{"t":"call","id":7,"tool":"echo","args":{"a":1}}\')\nresult = str(receive())',
        outcomes("{'t': 'reply', 'id': 7, 'ok': True, 'value': {'a': 1}}"),
        then="",
        is_control=True,
    ),
    _wire("a result written by hand is believed", "send(done(b'\"forged\"'))", outcomes("forged"), is_control=True),
    _wire("say done twice", "send(done(b'\"first\"'), done(b'\"second\"'))", outcomes("first")),
    _wire(
        "call after done",
        'send(done(b\'"first"\'), b\'{"t":"call","id":1,"tool":"late","args":{}}\')',
        outcomes("first"),
    ),
    *(
        _wire(name, f"line.sendall({data})")
        for name, data in (
            ("send garbage", "bytes(range(256)) * 256"),
            ("announce four gigabytes", "b'\\xff\\xff\\xff\\xff'"),
            ("announce one byte too many", "struct.pack('<I', (17 << 20))"),
            ("send an empty frame", "bytes(4)"),
            ("send a frame of zeros", "frame(bytes(64))"),
            ("send a web request", "b'GET / HTTP/1.1\\r\\n\\r\\n'"),
        )
    ),
    *(
        _wire(name, f"send({body})")
        for name, body in (
            ("send text that is not JSON", "b'hello'"),
            ("send text that is not Unicode", "b'\"\\xff\\xfe\"'"),
            ("send JSON after JSON", "done(b'1') + b'{}'"),
            ("send a list", "b'[]'"),
            ("send a frame of no type", "b'{}'"),
            ("send a frame of an unknown type", 'b\'{"t":"open"}\''),
            ("send a frame of two types", 'b\'{"t":"done","t":"call"}\''),
            ("forge a reply", 'b\'{"t":"reply","id":1,"ok":true,"value":1}\''),
            ("forge the seal", 'b\'{"t":"sealed"}\''),
            ("forge the probe's answer", 'b\'{"t":"attacked","findings":[]}\''),
            (
                "forge findings of the probe",
                'b\'{"t":"attacked","findings":[{"name":"x","kind":"attack","done":false,"detail":""}]}\'',
            ),
            ("send a field too many", 'b\'{"t":"call","id":1,"tool":"a","args":{},"user":"root"}\''),
            ("leave a field out", 'b\'{"t":"call","id":1,"tool":"a"}\''),
            ("call with a list", 'b\'{"t":"call","id":1,"tool":"a","args":[]}\''),
            ("call with text", 'b\'{"t":"call","id":1,"tool":"a","args":"x"}\''),
            ("call with nothing", 'b\'{"t":"call","id":1,"tool":"a","args":null}\''),
            ("call a number", 'b\'{"t":"call","id":1,"tool":1,"args":{}}\''),
            ("call with a number that is text", 'b\'{"t":"call","id":"1","tool":"a","args":{}}\''),
            ("call with a number that is a fraction", 'b\'{"t":"call","id":1.5,"tool":"a","args":{}}\''),
            (
                "call with arguments over the limit",
                'b\'{"t":"call","id":1,"tool":"a","args":{"x":"\' + b\'x\' * (5 << 20) + b\'"}}\'',
            ),
            ("call a name over the limit", 'b\'{"t":"call","id":1,"tool":"\' + b\'x\' * (5 << 20) + b\'","args":{}}\''),
            ("return what is not a number", "done(b'NaN')"),
            ("return infinity", "done(b'-Infinity')"),
            ("return a number beyond all floats", "done(b'1e999')"),
            ("return a number of too many digits", "done(b'1' * 100_000)"),
            ("return half a surrogate pair", "done(b'\"\\\\ud800\"')"),
            ("return a control character", "done(b'\"\\x00\"')"),
            ("return a hundred thousand lists in one another", "done(b'[' * 100_000 + b']' * 100_000)"),
            ("return a hundred thousand objects in one another", "done(b'{\"a\":' * 100_000 + b'1' + b'}' * 100_000)"),
            (
                "call with lists in one another",
                'b\'{"t":"call","id":1,"tool":"a","args":{"a":\' + b\'[\' * 100_000 + b\']\' * 100_000 + b\'}}\'',
            ),
            ("fail without a reason", 'b\'{"t":"done","ok":false,"cpu_seconds":1,"memory_peak_bytes":1}\''),
            (
                "fail in an unknown way",
                'b\'{"t":"done","ok":false,"failure":{"kind":"escaped","type":"x","message":"x"},"cpu_seconds":1,"memory_peak_bytes":1}\'',
            ),
            ("report a usage that is text", 'b\'{"t":"done","ok":true,"cpu_seconds":"x","memory_peak_bytes":1}\''),
        )
    ),
    _wire("call twice with one number", 'send(*[b\'{"t":"call","id":1,"tool":"never","args":{}}\'] * 2)'),
    _wire(
        "call with numbers of every size",
        """
for number in (-1, 0, 2**31, 2**63, 2**64, 10**400):
    send(b'{"t":"call","id":%d,"tool":"echo","args":{}}' % number)
result = str([receive()["id"] == number for number in (-1, 0, 2**31, 2**63, 2**64, 10**400)])
""",
        outcomes(str([True] * 6)),
        then="",
    ),
    _wire("leave in the middle of a frame", "line.sendall(frame(done(b'1'))[:-1])\nos._exit(0)"),
    _wire("leave in the middle of a length", "line.sendall(b'\\x01')\nos._exit(0)"),
    _wire("forge a broken seal", 'send(b\'{"t":"broken","error":"forged"}\')', is_slow=True),
    _wire(
        "stop in the middle of a frame",
        "line.sendall(frame(done(b'1'))[:-1])",
        outcomes("timeout:wall_time:WallTimeExceeded"),
        wall_seconds=1.0,
        is_slow=True,
    ),
    _wire("close the connection and go on", "os.close(3)", is_slow=True),
    _wire("stop writing and go on", "line.shutdown(socket.SHUT_WR)", is_slow=True),
    _wire("leave without a word", "os._exit(0)", outcomes("broken:exit:InterpreterExited")),
    _wire("leave as if the seal had failed", "os._exit(70)", outcomes("broken:exit:InterpreterExited")),
    _wire(
        "send the frame a byte at a time",
        "for byte in frame(done(b'\"slow\"')):\n    line.sendall(bytes([byte]))",
        outcomes("slow"),
    ),
    _wire(
        "send descriptors to the gateway",
        """
for _ in range(20):
    socket.send_fds(line, [frame(b'{"t":"call","id":%d,"tool":"echo","args":{}}' % _)], [0, 1, 3] * 10)
    receive()
result = "sent"
""",
        outcomes("sent"),
        then="",
    ),
    _wire(
        "call without end",
        """
number = 0
while True:
    send(b'{"t":"call","id":%d,"tool":"echo","args":{}}' % number)
    receive()
    number += 1
""",
        outcomes("limit:calls:CallsExceeded"),
        then="",
    ),
    _wire(
        "put a forged path where a big result lies",
        'send(done(b\'1\')[:-1] + b\',"spill":{"path":"/etc/shadow","bytes":1,"shape":"x"}}\')',
        outcomes("1"),
    ),
)

PATCHES: tuple[Attempt, ...] = (
    guest.block("an ordinary error is told", "{}['missing']", outcomes("failed:exception:KeyError"), is_control=True),
    guest.block(
        "rewrite the runner",
        """
runner = sys._getframe(1).f_globals
runner["_success"] = lambda *_: '{"t":"done","ok":true,"result":"rewritten","cpu_seconds":0,"memory_peak_bytes":0}'
""",
        outcomes("rewritten"),
    ),
    guest.block(
        "make the report impossible",
        """
runner = sys._getframe(1).f_globals
runner["_success"] = runner["_failure"] = None
""",
        outcomes("broken:exit:InterpreterExited"),
    ),
    guest.block(
        "replace what the guest is built from",
        """
json.dumps = json.loads = struct.Struct = None
socket.socket.sendall = None
""",
        outcomes("broken:exit:InterpreterExited"),
    ),
    guest.block(
        "replace every built-in function",
        """
built_in = module("builtins")
for name in list(vars(built_in)):
    if name not in ("BaseException", "__build_class__", "list", "vars"):
        setattr(built_in, name, None)
""",
        outcomes("broken:exit:InterpreterExited"),
    ),
    guest.block(
        "close every descriptor",
        "os.closerange(0, 64)",
        outcomes("broken:exit:InterpreterExited"),
    ),
    guest.block("replace the output", "sys.stdout = sys.stderr = None\nresult = 'silent'", outcomes("silent")),
    guest.block(
        "return a value that lies about its class",
        """
class Liar(dict):
    __class__ = str
    def __repr__(self):
        raise SystemExit(0)
    def __iter__(self):
        raise KeyboardInterrupt
    items = keys = values = __iter__
result = Liar(a=1)
""",
        outcomes("{'a': 1}"),
    ),
    guest.block(
        "raise an error that cannot be told",
        """
class Mute(Exception):
    def __str__(self):
        os._exit(0)
raise Mute
""",
        outcomes("broken:exit:InterpreterExited"),
    ),
    guest.block(
        "raise an error that raises",
        """
class Loud(BaseException):
    def __str__(self):
        raise Loud
raise Loud
""",
        outcomes("failed:exception:Loud"),
    ),
    guest.block("exit quietly", "raise SystemExit(0)", outcomes("None")),
    guest.block("exit with a status", "raise SystemExit(3)", outcomes("failed:exit:SystemExit")),
    guest.block("crash the interpreter", "ctypes.string_at(1)", outcomes("broken:crash:InterpreterCrashed")),
    guest.block("abort the interpreter", "os.abort()", outcomes("broken:crash:InterpreterCrashed")),
    guest.block(
        "corrupt memory",
        "ctypes.memset(id(json), 255, 4096)\njson.dumps([])",
        outcomes("broken:crash:InterpreterCrashed"),
    ),
)

ATTEMPTS = FRAMES + PATCHES
