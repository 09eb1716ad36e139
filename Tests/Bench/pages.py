#!/usr/bin/env python3
"""pages.py CONCORD [ITEMS]: measures how long a hub takes for pages of a volume with so many items (1,000,000).

Half of the items are in one directory, the others in directories of 1,000. The items are documents with the same
contents. Prints, for each page, its bytes as sent and the times of 20 requests, on a connection that is open already.
Exits with 1 if a page exceeds the bounds: 100 kB, and a median of 200 ms.
"""
import gzip
import http.client
import os
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.parse

from served_hub import Hub

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Fuzz"))
from device import Device, manifest  # noqa: E402

BYTES_BOUND, SECONDS_BOUND, REQUESTS = 100_000, 0.200, 20
OPERATIONS = 500


class Filling:
    """Fills the volume of a device."""

    def __init__(self, device):
        self.device = device
        self.data = random.randbytes(100)
        frame, self.chunk = device.frame(self.data)
        device.good("POST", device.path("chunks"), frame)

    def directory(self, name):
        item = "%032x" % random.getrandbits(128)
        self.device.commit([self.device.directory(item, name)])
        return item

    def documents(self, parent, count):
        for start in range(0, count, OPERATIONS):
            numbers = range(start, min(start + OPERATIONS, count))
            self.device.commit([self.document(parent, "document %06d.txt" % number) for number in numbers])

    def document(self, parent, name):
        change, content = self.device.creation(self.data, self.chunk, name, parent)
        return self.device.operation("%032x" % random.getrandbits(128), change, content=content)


class Browser:
    """Requests pages as a browser without JavaScript does."""

    def __init__(self, hub, user):
        self.connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)
        self.cookies = {}
        said = subprocess.run(hub.invite() + [user], check=True, capture_output=True, text=True)
        token = re.search(r'name="token" value="([^"]*)"', self.get("/web/signin")[1]).group(1)
        form = {"token": token, "to": "/web", "code": said.stdout.split("\n")[-2]}
        status, _, _ = self.ask("POST", "/web/signin", urllib.parse.urlencode(form), {
            "Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"})
        assert status == 303, "the sign-in was answered %d" % status

    def ask(self, method, path, body=None, more=None):
        headers = {"Accept-Encoding": "gzip", "Cookie": "; ".join("%s=%s" % one for one in self.cookies.items())}
        headers.update(more or {})
        self.connection.request(method, path, body, headers)
        reply = self.connection.getresponse()
        data = reply.read()
        for cookie in reply.headers.get_all("Set-Cookie") or []:
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookies[name] = value
        text = gzip.decompress(data) if reply.headers.get("Content-Encoding") == "gzip" else data
        return reply.status, text.decode(), len(data)

    def get(self, path):
        status, text, count = self.ask("GET", path)
        assert status == 200, "%s was answered %d" % (path, status)
        return count, text

    def link(self, path, text):
        """Returns the address of the item with this text in a list, or of the next page."""
        page = self.get(path)[1]
        if text == "next":
            return re.findall(r'href="([^"]*[?&;]page=[^"]*)"', page)[-1].replace("&amp;", "&")
        item = page.index("<bdi>%s</bdi>" % text)
        return re.findall(r'<a href="([^"]*)"', page[:item])[-1]

    def measure(self, name, path):
        """Returns whether the page keeps the bounds."""
        times = []
        for _ in range(REQUESTS):
            start = time.perf_counter()
            count, _ = self.get(path)
            times.append(time.perf_counter() - start)
        median, worst = statistics.median(times), max(times)
        print("%-45s %7d bytes  median %6.1f ms  worst %6.1f ms" % (name, count, median * 1e3, worst * 1e3))
        return count <= BYTES_BOUND and median <= SECONDS_BOUND


def fill(hub, items):
    filling = Filling(Device("http://127.0.0.1:%d" % hub.port, hub.invite(), "anna"))
    start = time.perf_counter()
    filling.documents(filling.directory("a large directory"), items // 2)
    for number in range(items // 2 // 1000):
        filling.documents(filling.directory("directory %04d" % number), 999)
    print("%d items were committed in %.0f s" % (items, time.perf_counter() - start))


def measure(hub):
    browser = Browser(hub, "anna")
    volume = re.search(r'href="(/web/v/[0-9a-f]{32})"', browser.get("/web")[1]).group(1)
    large = browser.link(volume, "a large directory")
    pages = [
        ("the volumes", "/web"), ("the root directory", volume), ("a directory with half of the items", large),
        ("its next page", browser.link(large, "next")), ("a document", browser.link(large, "document 000001.txt"))]
    return [browser.measure(*page) for page in pages]


def main():
    hub = Hub(sys.argv[1], False)
    try:
        fill(hub, int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
        print("the hub uses %d MB" % (hub.memory("VmRSS") >> 20))
        return 0 if all(measure(hub)) else 1
    finally:
        hub.stop()


if __name__ == "__main__":
    sys.exit(main())
