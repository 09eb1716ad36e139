"""hub.py ADDRESS SECONDS SEED INVITE…: sends damaged messages and bytes to each endpoint of a hub.

INVITE… is a command that prints a one-time code in its last line; its last argument is the user's name.
Exits with 1 and prints what was sent if an answer is a 5xx, is missing, or is wrong for a good client.
"""
import base64
import json
import random
import socket
import sys
import time
import urllib.parse

from device import Device, Fault
from mutations import EDGES, TEXTS, Messages, spoil, spoil_bytes, strange

# The hub is busy, the quota is exceeded, or the disk is full. Devices handle these answers.
ALLOWED = {503: {"busy"}, 507: {"quota", "full"}}


class Fuzzer:
    """Sends slightly wrong requests."""

    def __init__(self, address, invite, seed):
        self.random = random.Random(seed)
        self.address = address
        self.hostile = Device(address, invite, "ann")
        self.good = Device(address, invite, "berta")
        description = self.hostile.good("GET", "/openapi.json", b"")
        self.messages = Messages(description, self.random)
        self.paths = [
            (method.upper(), path, about) for path, methods in description["paths"].items()
            for method, about in methods.items() if isinstance(about, dict)]
        self.statuses, self.sent = {}, None
        self.messages.ids += [self.hostile.id, self.good.id, "0" * 32, self.hostile.volume["id"]]

    def commit(self, message):
        """Fills in the device, the epochs and the numbers, so that the hub examines the message."""
        device = self.hostile
        message.update(
            device=device.id, epoch=device.epoch, volumeEpoch=device.volume["epoch"],
            sent=time.time_ns())
        for optional in ("cursor", "run", "collection"):
            message.pop(optional, None)
        for index, operation in enumerate(message["operations"]):
            operation["number"] = device.number + index
            create = operation["change"].get("create")
            if create:
                create["kind"] = self.random.choice([1, 2, 4])
                if create["kind"] != 1:
                    create.pop("revision", None)
                if create["kind"] == 4:
                    create["target"] = "somewhere"
                else:
                    create.pop("target", None)
                name = "name %d" % self.random.randrange(50)
                create["placement"].update(
                    name=name, spare=name + " 2", key=base64.b64encode(name.encode()).decode())
        return message

    def body(self, path, about):
        """Returns a valid body and its content type."""
        content = about.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            message = self.messages.value(content["application/json"]["schema"])
            if path.endswith("/commit"):
                message = self.commit(message)
            return message, "application/json"
        if content:
            if path.endswith("/chunks"):
                frames = [
                    self.hostile.frame(self.random.randbytes(self.random.choice([1, 50, 4000])))
                    for _ in range(self.random.randrange(4))]
                self.messages.chunks += [chunk for _, chunk in frames]
                del self.messages.chunks[:-500]
                return b"".join(frame for frame, _ in frames), "application/octet-stream"
            ids = self.random.choices(self.messages.chunks, k=self.random.randrange(5))
            return b"".join(ids), "application/octet-stream"
        return b"", None

    def address_of(self, path, about, is_odd):
        """Returns the path with its parameters, and the headers."""
        random, headers = self.random, {}
        volume = self.hostile.volume["id"]
        path = path.replace("{volume}", random.choice([volume] * 20 + [self.good.volume["id"], "x"]))
        path = path.replace("{device}", self.messages.id() if is_odd else "%032x" % random.getrandbits(128))
        query = []
        for parameter in about.get("parameters", []):
            name, place = parameter.get("name"), parameter.get("in")
            if name is None or place == "path" or random.random() < 0.3:
                continue
            value = self.messages.value(parameter["schema"])
            if name == "Concord-Epoch" and random.random() < 0.8:
                value = self.hostile.volume["epoch"]
            if is_odd and random.random() < 0.5:
                value = random.choice(random.choice([EDGES, TEXTS]))
            if place == "query":
                query.append((name, str(value).encode("utf-8", "surrogatepass")))
            else:
                text = str(value).encode("utf-8", "surrogatepass")[:200]
                headers[name] = bytes(c for c in text if 32 <= c < 127).decode()
        return path + ("?" + urllib.parse.urlencode(query) if query else ""), headers

    def request(self):
        """Sends one request to one endpoint: valid, or with a damaged message or damaged bytes."""
        random = self.random
        method, path, about = random.choice(self.paths)
        if path.endswith("/signout") and random.random() < 0.95:
            method, path, about = random.choice(self.paths)
        if random.random() < 0.3:
            method, path, about = next(one for one in self.paths if one[1].endswith("/commit"))
        way = random.randrange(4)
        target, headers = self.address_of(path, about, way > 0)
        body, kind = self.body(path, about)
        if way in (1, 2) and not isinstance(body, bytes):
            body = spoil(random, body)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if way == 3 or (way == 2 and kind != "application/json"):
            body = spoil_bytes(random, body) if body else strange_bytes(random)
        headers = self.hostile.headers(headers)
        if kind:
            headers["Content-Type"] = kind
        if path == "/v1/enrol":
            headers["X-Forwarded-For"] = "10.%d.%d.%d" % tuple(random.randbytes(3))
        if random.random() < 0.02:
            method = random.choice(["PUT", "HEAD", "PATCH", "DELETE", "OPTIONS", "BREW"])
        self.sent = (method, target, headers, body)
        return self.sent

    def judge(self, status, said):
        """Records the status, and reacts as a device would."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        try:
            answer = json.loads(said)
        except ValueError:
            answer = {}
        answer = answer if isinstance(answer, dict) else {}
        code = answer.get("code")
        if status >= 500 and code not in ALLOWED.get(status, ()):
            raise Fault("%d %r" % (status, said[:500]))
        if 400 <= status < 500 and said and not answer.get("message"):
            raise Fault("%d without a sentence: %r" % (status, said[:500]))
        device, target = self.hostile, self.sent[1]
        if status == 401 and "Bearer" in self.sent[2].get("Authorization", ""):
            device.sign_in()
        elif code == "gap":
            device.number = answer["expected"]
        elif code in ("copied", "deviceEpoch", "cloned") or (
                status == 200 and target.endswith("self/epoch")):
            made = device.good("POST", "/v1/devices/self/epoch", b"")
            device.epoch, device.number = made["epoch"], 1
        elif code == "volumeEpoch":
            device.open()
        elif status == 200 and target.endswith("self/token"):
            device.token = answer["token"]
        elif status == 200 and target.endswith("/commit"):
            for result in answer["results"]:
                device.number = max(device.number, result["number"] + 1)

    def bytes(self):
        """Damages the bytes of a whole request, or of several at once."""
        raw = b""
        for _ in range(self.random.choice([1, 1, 2, 3])):
            method, target, headers, body = self.request()
            lines = ["%s %s HTTP/1.1" % (method, target), "Host: h"]
            lines += ["%s: %s" % pair for pair in headers.items()]
            lines += ["Content-Length: %d" % len(body), "", ""]
            raw += "\r\n".join(lines).encode("utf-8", "replace") + body
        raw = spoil_bytes(self.random, raw)
        self.sent = ("bytes", repr(raw[:2000]), {}, b"")
        place = self.hostile.line.place
        with socket.create_connection((place.hostname, place.port), timeout=10) as line:
            said = b""
            try:
                line.sendall(raw)
                line.shutdown(socket.SHUT_WR)
                line.settimeout(2)
                while piece := line.recv(1 << 16):
                    said = (said + piece)[:1 << 20]
            except OSError:
                pass  # The hub, or a proxy before it, has ended the connection.
        for answer in said.split(b"HTTP/1.1 ")[1:]:
            if answer[:1] == b"5" and answer[:3] not in (b"501", b"505"):
                if not any(b'"%s"' % code.encode() in answer for code in ("busy", "quota", "full")):
                    raise Fault("%r" % answer[:500])
        # The request may have ended a token or used numbers.
        device = self.hostile
        status, _ = device.line.ask("GET", "/v1/devices", None, device.headers())
        if status == 401:
            device.sign_in()

    def run(self, seconds):
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            count += 1
            if count % 5 == 0:
                self.bytes()
            else:
                self.judge(*self.hostile.line.ask(*self.arguments()))
            if count % 200 == 0:
                self.good.works()
        self.good.works()
        print("hub: %d requests, answered %s" % (count, dict(sorted(self.statuses.items()))))

    def arguments(self):
        method, target, headers, body = self.request()
        return method, target, body, headers


def strange_bytes(random_):
    """Returns a body for a request that needs none."""
    return json.dumps(strange(random_)).encode() if random_.random() < 0.1 else b""


def main(address, seconds, seed, *invite):
    """Exits with 1 and prints what was sent if something is wrong."""
    random.seed(int(seed))
    fuzzer = Fuzzer(address, list(invite), int(seed))
    try:
        fuzzer.run(float(seconds))
    except Fault as fault:
        print("hub: %s\nafter %r" % (fault, str(fuzzer.sent)[:6000]), file=sys.stderr)
        sys.exit(1)


main(*sys.argv[1:])
