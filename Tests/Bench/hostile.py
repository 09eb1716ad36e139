#!/usr/bin/env python3
"""hostile.py CONCORD [--tls]: measures what 1,000 idle and 40 hostile connections cost a hub, and how much a
hostile device delays another account. Prints the figures with their bounds; exits with 1 if one is exceeded.

The machine delays requests, too, above all while the hostile device uses it. So the same requests are sent in
turn to a second hub, where nothing else happens, and what is slow there is not held against the first one.
"""
import json
import multiprocessing
import os
import random
import statistics
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Fuzz"))
from device import Device, Fault  # noqa: E402
from served_hub import Hub  # noqa: E402

IDLE, HOSTILE = 1000, 40
MEMORY_BOUND, DELAY_BOUND = 100 << 20, 0.100
SECONDS = 20


def memory(hub, device):
    """Measures the memory that the connections cost at most, beyond what the hub uses without them."""
    before = hub.memory("VmRSS")
    idle = []
    feed = "GET %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n" % (device.path("feed"), device.token)
    for number in range(IDLE):
        line = hub.connect(number)
        line.sendall(feed.encode() if number % 2 else b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        line.recv(65536)
        idle.append(line)
    quiet = hub.memory("VmRSS")
    hostile = []
    for number in range(HOSTILE):
        line = hub.connect(number)
        # An unknown client, a device that sends much JSON, and one that sends a long chunk.
        way = number % 3
        path = ["/v1/enrol", device.path("commit"), device.path("chunks")][way]
        length = 4000 if way == 0 else 16 << 20
        token = "Authorization: Bearer %s\r\n" % device.token if way else ""
        kind = "octet-stream" if way == 2 else "json"
        head = "POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Type: application/%s\r\nContent-Length: %d\r\n\r\n"
        # Sends everything but the end, as far as the hub accepts it.
        body = b"[" + b"0," * (length // 2 - 2)
        if way == 2:
            body = struct.pack(">I", length - 37) + bytes(length - 100)
        line.settimeout(5)
        try:
            line.sendall((head % (path, token, kind, length)).encode())
            line.sendall(body)
        except OSError:
            pass
        hostile.append(line)
    time.sleep(1)
    now, most = hub.memory("VmRSS"), hub.memory("VmHWM")
    for line in idle + hostile:
        line.close()
    return before, quiet, now, most


def delays(devices, seconds):
    """Returns for each device the times of small operations, which the devices send one after the other."""
    found, end = [[] for _ in devices], time.monotonic() + seconds
    while time.monotonic() < end:
        for device, times in zip(devices, found):
            start = time.monotonic()
            device.commit([device.directory("%032x" % random.getrandbits(128), "d%d" % device.number)])
            times.append(time.monotonic() - start)
        time.sleep(0.02)
    return [sorted(times) for times in found]


def attack(hub, directory, chunks, stop):
    """Makes the hub do everything at once that one device can make it do."""
    device = Device(hub.address, hub.invite(), "anna")
    ids = b"".join(chunks) * 4
    while not stop.is_set():
        choice = random.randrange(5)
        body, kind, call = ids, "application/octet-stream", random.choice(["have", "read"])
        if choice == 0:
            # The device has seen nothing of the directory, so each deletion is overruled, which costs all its contents.
            operations = [device.operation(directory, {"do": "delete"}) for _ in range(200)]
            body = json.dumps({
                "device": device.id, "epoch": device.epoch, "volumeEpoch": device.volume["epoch"],
                "operations": operations, "sent": time.time_ns()}).encode()
            kind, call = "application/json", "commit"
        elif choice == 1:
            body, call = b"".join(device.frame(random.randbytes(1000))[0] for _ in range(1000)), "chunks"
        elif choice == 2:
            revisions = ["%032x" % random.getrandbits(128) for _ in range(8192)]
            body = json.dumps({"revisions": revisions}).encode()
            kind, call = "application/json", random.choice(["durability", "holding", "manifests"])
        elif choice == 3:
            # The largest body that the hub accepts and decodes.
            body = b"{\"operations\": [" + b"0" + b",0" * 1_000_000 + b" " * (13 << 20) + b"]}"
            kind, call = "application/json", "commit"
        try:
            device.line.ask("POST", device.path(call), body, device.headers({"Content-Type": kind}))
        except Fault:
            pass


def latency(hub, idle):
    """Measures the times of one account alone, and beside a hostile device of another account; both at this hub
    and at an idle one."""
    good, owner = Device(hub.address, hub.invite(), "berta"), Device(hub.address, hub.invite(), "anna")
    pair = [good, Device(idle.address, idle.invite(), "berta")]
    directory = "%032x" % random.getrandbits(128)
    owner.commit([owner.directory(directory, "full")])
    for start in range(0, 4000, 500):
        owner.commit([
            owner.directory("%032x" % random.getrandbits(128), "d%d" % (start + n), directory) for n in range(500)])
    chunks = []
    for _ in range(4):
        frames = [owner.frame(random.randbytes(500)) for _ in range(500)]
        owner.good("POST", owner.path("chunks"), b"".join(frame for frame, _ in frames))
        chunks += [chunk for _, chunk in frames]
    alone = delays(pair, SECONDS)
    stop = multiprocessing.Event()
    # The hostile device uses many connections.
    others = [multiprocessing.Process(target=attack, args=(hub, directory, chunks, stop)) for _ in range(8)]
    for other in others:
        other.start()
    time.sleep(2)
    beside = delays(pair, SECONDS)
    stop.set()
    for other in others:
        other.join()
    return alone, beside


def main(program, *words):
    hub = Hub(os.path.abspath(program), "--tls" in words)
    idle = Hub(os.path.abspath(program), False)
    try:
        device = Device(hub.address, hub.invite(), "anna", hub.tls)
        before, quiet, now, most = memory(hub, device)
        print("memory: %d MB at first, %d MB with %d idle connections, %d MB with %d hostile ones, too, %d MB at most" % (
            before >> 20, quiet >> 20, IDLE, now >> 20, HOSTILE, most >> 20))
        cost = most - before
        print("the connections cost %d MB (bound %d MB)" % (cost >> 20, MEMORY_BOUND >> 20))
        if hub.tls:
            return int(cost > MEMORY_BOUND)
        alone, beside = latency(hub, idle)
        for name, times in (("alone", alone), ("beside a hostile device", beside)):
            for place, found in zip(("this hub", "the idle hub"), times):
                print("%s, %s: %d operations, median %.1f ms, 99 of 100 within %.1f ms, the slowest %.1f ms" % (
                    name, place, len(found), statistics.median(found) * 1000, found[int(len(found) * 0.99)] * 1000,
                    found[-1] * 1000))
        delay = beside[0][-1] - max(beside[1][-1], statistics.median(alone[0]))
        print("the other account is delayed by at most %.1f ms (bound %.0f ms)" % (delay * 1000, DELAY_BOUND * 1000))
        return int(cost > MEMORY_BOUND or delay > DELAY_BOUND)
    finally:
        hub.stop()
        idle.stop()


sys.exit(main(*sys.argv[1:]))
