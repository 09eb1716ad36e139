"""A small client of a hub that sends what the API description allows."""
import base64
import hashlib
import hmac
import http.client
import json
import random
import struct
import subprocess
import time
import urllib.parse


class Fault(Exception):
    """A wrong answer of the hub."""


class Line:
    """A connection that is opened again after it was closed."""

    def __init__(self, address, tls=None):
        self.place = urllib.parse.urlsplit(address)
        self.tls, self.connection = tls, None

    def connect(self):
        """Opens a new connection."""
        if self.tls:
            return http.client.HTTPSConnection(
                self.place.hostname, self.place.port, timeout=60, context=self.tls)
        return http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        """Returns the status and the body of the answer."""
        for is_last in (False, True):
            is_new = self.connection is None
            if is_new:
                self.connection = self.connect()
            try:
                self.connection.request(method, path, body, headers or {})
                reply = self.connection.getresponse()
                if path.endswith("/feed") and reply.status == 200:
                    self.connection.close()
                    self.connection = None
                    return 200, b""
                return reply.status, reply.read()
            except (ConnectionError, http.client.HTTPException) as error:
                self.connection.close()
                self.connection = None
                # The hub may cut off a body that is too long, and close an idle connection.
                if len(body or b"") > 60_000 and not is_last:
                    return 413, b""
                if is_new or is_last:
                    raise Fault("no answer: %r" % error) from error
            except TimeoutError as error:
                raise Fault("no answer within 60 s") from error
        raise Fault("no answer")


def number(value):
    """Returns a number in LEB128."""
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(digits) + bytes([value])


def manifest(data):
    """Returns the manifest of a file that consists of one chunk (Manifest+Coding.swift)."""
    mode, modified, size = number(0o644), number(0), number(len(data))
    chunk = b"\1" + hashlib.sha256(data).digest() + size
    path, target, kind = number(0), number(0), b"\1"
    return b"\1" + number(1) + path + kind + mode + modified + size + target + number(1) + chunk


class Device:
    """A device of an account that can send valid requests."""

    def __init__(self, address, invite, user, tls=None):
        self.line, self.invite, self.user = Line(address, tls), invite, user
        self.number, self.chunks = 1, {}
        self.sign_in()

    def sign_in(self):
        said = subprocess.run(self.invite + [self.user], check=True, capture_output=True, text=True)
        asked = {
            "code": said.stdout.split("\n")[-2], "deviceName": "fuzzer",
            "device": "%032x" % random.getrandbits(128),
        }
        # The header simulates a proxy, because wrong codes are counted by address.
        answer = self.good("POST", "/v1/enrol", asked, {"X-Forwarded-For": "10.1.1.1"})
        self.token, self.id, self.epoch = answer["token"], answer["device"], answer["epoch"]
        self.number = 1
        self.open()

    def open(self):
        self.volume = self.good("POST", "/v1/volumes", {"name": "fuzzed"})

    def headers(self, more=None):
        made = {"Authorization": "Bearer " + getattr(self, "token", "none")}
        made.update(more or {})
        return made

    def good(self, method, path, body, more=None):
        """Returns the answer to a valid request."""
        is_json = not isinstance(body, bytes)
        kind = "application/json" if is_json else "application/octet-stream"
        data = json.dumps(body).encode() if is_json else body
        headers = self.headers(dict(more or {}, **{"Content-Type": kind}))
        for _ in range(50):
            status, said = self.line.ask(method, path, data, headers)
            if status != 503:
                break
            time.sleep(0.1)
        if status != 200:
            raise Fault("a good %s %s was answered %d %r" % (method, path, status, said[:300]))
        return json.loads(said) if said[:1] == b"{" else said

    def path(self, call):
        return "/v1/volumes/%s/%s" % (self.volume["id"], call)

    def frame(self, data):
        """Returns a chunk's frame and its id."""
        key = base64.b64decode(self.volume["chunkKey"])
        chunk = hmac.new(key, b"\1" + hashlib.sha256(data).digest(), hashlib.sha256).digest()
        return struct.pack(">I", len(data)) + chunk + b"\0" + data, chunk

    def works(self):
        """Checks that uploaded and committed contents can be read."""
        self.open()
        data = random.randbytes(random.choice([1, 100, 5000]))
        frame, chunk = self.frame(data)
        self.good("POST", self.path("chunks"), frame)
        read = self.good("POST", self.path("read"), chunk)
        if read != frame:
            raise Fault("a chunk was read as another: %r" % read[:100])
        item, answer = self.make(data, chunk)
        result = answer["results"][0]
        if result.get("verdict", {}).get("is") != "applied":
            raise Fault("a good operation was not applied: %r" % result)
        page = self.good("GET", self.path("changes") + "?after=%d" % (result["sequence"] - 1), b"", {
            "Concord-Epoch": self.volume["epoch"]})
        if not any(item in json.dumps(change) for change in page["changes"]):
            raise Fault("a good operation is not in the changes: %r" % page)

    def placement(self, name, parent="0" * 32):
        """Returns a name in a directory, with its alternative name."""
        both = name, name + " 2"
        keys = [base64.b64encode(text.encode()[-60:]).decode() for text in both]
        return {"parent": parent, "name": both[0], "spare": both[1], "key": keys[0], "spareKey": keys[1]}

    def operation(self, item, change, **more):
        """Returns an operation of this device with the next number."""
        self.number += 1
        return dict(
            number=self.number - 1, item=item, time=time.time_ns(), base=0, change=change, **more)

    def commit(self, operations):
        return self.good("POST", self.path("commit"), {
            "device": self.id, "epoch": self.epoch, "volumeEpoch": self.volume["epoch"],
            "operations": operations, "sent": time.time_ns()})

    def directory(self, item, name, parent="0" * 32):
        """Returns the operation that creates a directory."""
        return self.operation(item, {"do": "create", "create": {
            "kind": 2, "attributes": {}, "placement": self.placement(name, parent)}})

    def creation(self, data, chunk, name, parent="0" * 32):
        """Returns the change that creates a file with an uploaded chunk, and its content."""
        revision = "%032x" % random.getrandbits(128)
        note = dict.fromkeys(("deviceName", "person", "program", "name"), "x")
        note.update(modified=1, saved=1)
        create = {
            "kind": 1, "attributes": {}, "placement": self.placement(name, parent),
            "revision": {
                "id": revision, "parents": [], "content": "01" + chunk.hex(), "size": len(data),
                "moment": {"time": time.time_ns(), "device": self.id}, "sequence": 0, "equals": [],
                "note": note}}
        content = {
            "manifest": base64.b64encode(manifest(data)).decode(),
            "chunks": base64.b64encode(chunk).decode()}
        return {"do": "create", "create": create}, content

    def make(self, data, chunk):
        """Creates a file with an uploaded chunk. Returns its id and the answer."""
        item = "%032x" % random.getrandbits(128)
        change, content = self.creation(data, chunk, "file " + item)
        return item, self.commit([self.operation(item, change, content=content)])
