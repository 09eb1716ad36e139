"""Creates valid messages from the hub's API description, and damages messages."""
import base64
import json
import sys
import time

# Messages are nested more deeply than Python's default recursion limit.
sys.setrecursionlimit(20_000)

EDGES = [
    0, -1, 1, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**50, 2**50 + 1, 2**53, 2**62,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**40, 0.5, -0.0, 1e308, 5e-324,
]
TEXTS = [
    "", " ", "\0", "a\0b", "/", ".", "..", "../x", "a/../../b", "x" * 255, "x" * 256, "é" * 200,
    "\ud800", "\ufeff", "\u202e", "\U0001f600" * 100, "%00", "-1", "null", "0" * 32, "f" * 32,
    "g" * 32, "0" * 31, "0" * 33, "01" + "0" * 64, "02" + "0" * 64, "AAAA", "AAA=", "A===", "====",
    "\n", "{}", "\\", "\"", "x" * 70_000, ".versions", ".conflicts", ".concord-incoming",
]


class Messages:
    """Creates values that match a schema; ids are often ones that were used before."""

    def __init__(self, description, random):
        self.schemas = description["components"]["schemas"]
        self.random = random
        self.ids = ["0" * 31 + "1"]
        self.chunks = [bytes(32)]

    def id(self):
        """Returns a known id or a new one."""
        if self.random.random() < 0.3:
            self.ids.append("%032x" % self.random.getrandbits(128))
            del self.ids[1:-2000]
            return self.ids[-1]
        return self.random.choice(self.ids)

    def named(self, name):
        """Returns a value of a named schema if its type is not specific enough."""
        random = self.random
        if name == "Id":
            return self.id()
        if name == "Digest":
            return "01%064x" % random.getrandbits(256)
        if name == "Base64":
            length = random.choice([0, 1, 16, 32, 300])
            return base64.b64encode(random.randbytes(length)).decode()
        if name == "PackedIds":
            packed = b"".join(random.choices(self.chunks, k=random.randrange(4)))
            return base64.b64encode(packed).decode()
        if name == "Time":
            return time.time_ns() - random.randrange(10**12)
        if name == "Count":
            return random.randrange(100)
        return self.value(self.schemas[name])

    def value(self, schema):
        """Returns a value that matches the schema."""
        random = self.random
        if "$ref" in schema:
            return self.named(schema["$ref"].split("/")[-1])
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                return self.value(random.choice(schema[choice]))
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return random.choice(schema["enum"])
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = random.choice(kind)
        if kind == "object":
            return self.object(schema)
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(random.randrange(3))]
        if kind == "integer":
            return max(schema.get("minimum", 0), random.randrange(100))
        if kind == "boolean":
            return random.random() < 0.5
        if kind == "null":
            return None
        return "text %d" % random.randrange(1000)

    def object(self, schema):
        """Returns an object with all required fields and some others."""
        needed = schema.get("required", [])
        made = {
            name: self.value(field)
            for name, field in schema.get("properties", {}).items()
            if name in needed or self.random.random() < 0.5
        }
        if isinstance(schema.get("additionalProperties"), dict):
            for number in range(self.random.randrange(3)):
                made["x:user.%d" % number] = self.value(schema["additionalProperties"])
        return made


def keys(value):
    """Returns the keys of `value[key]`; none if the value has no parts."""
    if isinstance(value, dict):
        return list(value)
    return range(len(value)) if isinstance(value, list) else []


def places(value):
    """Returns each place in a message as its container and key."""
    found, open_ = [], [value]
    while open_:
        inside = open_.pop()
        for key in keys(inside):
            found.append((inside, key))
            if isinstance(inside[key], (dict, list)):
                open_.append(inside[key])
    return found


def nested(random):
    """Returns a deeply nested value."""
    value = random.choice([0, None, "x", {}])
    for _ in range(random.choice([10, 100, 500])):
        value = [value] if random.random() < 0.5 else {"change": value}
    return value


def strange(random):
    """Returns an unexpected value."""
    return random.choice([
        lambda: random.choice(EDGES), lambda: random.choice(TEXTS), lambda: None,
        lambda: random.random() < 0.5, lambda: {}, lambda: [], lambda: nested(random),
        lambda: [0] * 3000, lambda: "x" * random.choice([4096, 300_000]),
        lambda: random.getrandbits(63), lambda: "%032x" % random.getrandbits(128),
    ])()


def spoil(random, message):
    """Damages a message at one to three places: a missing field, a wrong type, or an edge value."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        found = places(message)
        if not found:
            return strange(random)
        inside, key = random.choice(found)
        deed = random.randrange(6)
        if deed == 0:
            del inside[key]
        elif deed == 1 and isinstance(inside[key], (int, float)):
            inside[key] = random.choice(EDGES)
        elif deed == 2 and isinstance(inside[key], str):
            inside[key] = random.choice(TEXTS)
        elif deed == 3 and isinstance(inside[key], list):
            inside[key] = (inside[key] or [0]) * random.choice([2, 17, 1001])
        elif deed == 4:
            other, name = random.choice(found)
            # The value is copied through its text, because a value must not contain itself.
            inside[key] = json.loads(json.dumps(other[name])) if name in keys(other) else None
        else:
            inside[key] = strange(random)
    return message


def spoil_bytes(random, data):
    """Damages bytes: changes, cuts, removes or doubles some, or takes some of another message."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4, 8])):
        at = random.randrange(len(data) + 1)
        length = random.choice([1, 1, 4, 32, 1000])
        deed = random.randrange(7)
        if deed == 0 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif deed == 1:
            data[at:at + length] = random.randbytes(length)
        elif deed == 2:
            del data[at:]
        elif deed == 3:
            del data[at:at + length]
        elif deed == 4:
            data[at:at] = data[at:at + length] * random.choice([1, 2, 50])
        elif deed == 5:
            data += data[:at]
        else:
            data[at:at] = random.choice([
                b"\0", b"\r\n", b"\r\n\r\n", b"[" * 5000, b"{\"a\":" * 5000, b"\xff\xfe", b"9" * 400,
                b"\"", b",", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\n", b"\xed\xa0\x80",
            ])
    return bytes(data)
