"""Synchronization of two devices on one machine: Concord with its hub, and Syncthing and Unison if installed.

Measures the time from a save on one device until it can be read on the other, many small files, and bytes sent.
"""

import ctypes
import json
import os
import random
import re
import select
import shutil
import socket
import sqlite3
import statistics
import subprocess
import time
import urllib.request

from targets import Target

LATENCY_BOUND = 0.100
ALTERNATING_BOUND, ALTERNATING_LATE_BOUND = 0.060, 0.200
FILES_BOUND = 5000
LARGE_BOUND = 2 << 20
DATABASE_BOUND = 0.05
IN_MOVED_TO, IN_CLOSE_WRITE = 0x80, 0x8


def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not happen within {seconds} s")
        time.sleep(0.05)


class Pair:
    """Two directories that a program keeps equal."""

    def __init__(self, base, name):
        self.name, self.base = name, os.path.join(base, name)
        self.processes = []
        os.makedirs(self.base)

    def spawn(self, *command, **more):
        with open(os.path.join(self.base, "log"), "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more)
        self.processes.append(process)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Concord(Pair):
    def __init__(self, base, concord):
        super().__init__(base, "concord")
        self.concord, self.fsctl = concord, os.path.join(os.path.dirname(concord), "fsctl")
        self.data, self.address = os.path.join(self.base, "hub"), f"127.0.0.1:{port()}"
        self.devices = []

    def start(self):
        self.quiet(self.concord, "hub", "user", "add", "me", "--data", self.data)
        self.spawn(self.concord, "hub", "--data", self.data, "--listen", self.address)
        until(self.is_up, 20, "a start of the hub")
        self.a, self.b = self.device("a").path, self.device("b").path

    def is_up(self):
        try:
            return urllib.request.urlopen(f"http://{self.address}/healthz", timeout=1).status == 200
        except OSError:
            return False

    def device(self, name, *options):
        target = Target(name, self.base, lambda store, path: [
            self.concord, "mount", "--foreground", "--store", store, "-o", "name=bench", *options, path])
        target.start()
        self.devices.append(target)
        code = self.quiet(self.concord, "hub", "invite", "me", "--data", self.data).split()[-1]
        self.quiet(self.fsctl, "signin", f"http://{self.address}", "--code", code, "--device", name,
                   "--volume", "bench", "--at", target.path)
        return target

    def quiet(self, *command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def settle(self, seconds=600):
        """Waits until nothing is being transferred between the two."""
        until(lambda: len({self.cursor(device) for device in self.devices} - {None}) == 1 and None not in
              [self.cursor(device) for device in self.devices], seconds, "being in step")

    def status(self, device):
        return json.loads(self.quiet(self.fsctl, "status", device.path, "--json"))

    def cursor(self, device):
        report = self.status(device)
        hub = report["hub"]
        open_ = (report["pendingEvents"] + report["waitingToBeCut"]
                 + hub["unsent"] + hub["sending"] + hub["due"])
        at_rest = hub["state"] == "up" and not open_ and hub["head"] == hub["cursor"]
        return hub["cursor"] if at_rest else None

    def counted(self, name):
        text = urllib.request.urlopen(f"http://{self.address}/metrics").read().decode()
        return int(re.search(rf"^concord_hub_{name} (\d+)", text, re.M).group(1))

    def stop(self):
        for device in self.devices:
            device.stop()
        super().stop()


class Syncthing(Pair):
    """Syncthing, whose shortest watcher delay is a second."""

    def __init__(self, base):
        super().__init__(base, "syncthing")

    def start(self):
        ids, ports = {}, {}
        for name in "ab":
            home = os.path.join(self.base, name + ".home")
            os.makedirs(os.path.join(self.base, name))
            subprocess.run(["syncthing", "generate", "--home", home, "--no-default-folder"],
                           check=True, capture_output=True)
            ids[name] = subprocess.run(["syncthing", "--home", home, "--device-id"], check=True,
                                       capture_output=True, text=True).stdout.strip()
            ports[name] = port()
        for name in "ab":
            self.configure(name, ids, ports)
            self.spawn("syncthing", "serve", "--no-browser", "--no-upgrade",
                       "--home", os.path.join(self.base, name + ".home"))
        self.a, self.b = os.path.join(self.base, "a"), os.path.join(self.base, "b")
        with open(os.path.join(self.a, "begin"), "w") as file:
            file.write("begin")
        until(lambda: os.path.exists(os.path.join(self.b, "begin")), 90, "Syncthing's first exchange")

    def configure(self, name, ids, ports):
        path = os.path.join(self.base, name + ".home", "config.xml")
        folder = (f'<folder id="bench" label="bench" path="{os.path.join(self.base, name)}" type="sendreceive" '
                  'rescanIntervalS="3600" fsWatcherEnabled="true" fsWatcherDelayS="1">'
                  + "".join(f'<device id="{ids[n]}"/>' for n in "ab") + "</folder>")
        devices = "".join(f'<device id="{ids[n]}" name="{n}"><address>tcp://127.0.0.1:{ports[n]}</address></device>'
                          for n in "ab")
        options = (f"<options><listenAddress>tcp://127.0.0.1:{ports[name]}</listenAddress>"
                   "<globalAnnounceEnabled>false</globalAnnounceEnabled>"
                   "<localAnnounceEnabled>false</localAnnounceEnabled><relaysEnabled>false</relaysEnabled>"
                   "<natEnabled>false</natEnabled><urAccepted>-1</urAccepted>"
                   "<crashReportingEnabled>false</crashReportingEnabled></options>")
        gui = f'<gui enabled="true"><address>127.0.0.1:{port()}</address></gui>'
        with open(path) as file:
            version = re.search(r'<configuration version="(\d+)">', file.read()).group(1)
        with open(path, "w") as file:
            file.write(f'<configuration version="{version}">{folder}{devices}{gui}{options}</configuration>')

    def settle(self, seconds=600):
        time.sleep(2)


class Unison(Pair):
    """Unison, run once a second, because Debian does not have its watcher."""

    def __init__(self, base):
        super().__init__(base, "unison")

    def start(self):
        self.a, self.b = os.path.join(self.base, "a"), os.path.join(self.base, "b")
        for path in (self.a, self.b):
            os.makedirs(path)
        self.spawn("unison", self.a, self.b, "-batch", "-auto", "-silent", "-repeat", "1",
                   env=dict(os.environ, UNISON=os.path.join(self.base, "archives")))
        time.sleep(2)

    def settle(self, seconds=600):
        time.sleep(2)


def latency(pair, times):
    """Seconds from close(2) on A to the event on B after which the new text can be read there."""
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(watch, pair.b.encode(), IN_MOVED_TO | IN_CLOSE_WRITE)
    taken = []
    try:
        for number in range(times):
            # Ten documents alternate, because a single one is sent at most once a second.
            name, text = f"letter{number % 10}.txt", f"save {number}\n"
            with open(os.path.join(pair.a, name), "w") as file:
                file.write(text)
            began = time.monotonic()
            while read(os.path.join(pair.b, name)) != text:
                if not select.select([watch], [], [], 30)[0]:
                    raise RuntimeError(f"{pair.name}: {name} did not come within 30 s")
                os.read(watch, 65536)
            taken.append(time.monotonic() - began)
            time.sleep(0.12)
    finally:
        os.close(watch)
    return taken


def alternating(pair, times):
    """Seconds from close(2) on one device until the other reads the edit, which it then answers after 100 ms."""
    libc = ctypes.CDLL(None)
    name, sides = "dialogue.txt", (pair.a, pair.b)
    watches = [libc.inotify_init1(os.O_NONBLOCK) for _ in sides]
    for watch, side in zip(watches, sides):
        libc.inotify_add_watch(watch, side.encode(), IN_MOVED_TO | IN_CLOSE_WRITE)
    taken = []
    try:
        for number in range(times):
            text = f"edit {number}\n"
            with open(os.path.join(sides[number % 2], name), "w") as file:
                file.write(text)
            began = time.monotonic()
            watch, other = watches[1 - number % 2], sides[1 - number % 2]
            while read(os.path.join(other, name)) != text:
                if not select.select([watch], [], [], 30)[0]:
                    raise RuntimeError(f"{pair.name}: {name} did not come within 30 s")
                os.read(watch, 65536)
            taken.append(time.monotonic() - began)
            time.sleep(0.1)
    finally:
        for watch in watches:
            os.close(watch)
    return sorted(taken)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def small_files(pair, source):
    """Seconds from the start of copying into A until B has all files."""
    began = time.monotonic()
    subprocess.run(["cp", "-r", source, os.path.join(pair.a, "small")], check=True)
    copied = time.monotonic() - began
    target = os.path.join(pair.b, "small")

    # A directory that is complete is not read again, because measuring should use little CPU.
    complete = {name: len(os.listdir(os.path.join(source, name))) for name in os.listdir(source)}

    def missing():
        try:
            for name in list(complete):
                if len(os.listdir(os.path.join(target, name))) < complete[name]:
                    break
                del complete[name]
        except OSError:
            pass
        return complete

    end = began + 600
    while missing():
        if time.monotonic() > end:
            raise RuntimeError(f"{pair.name}: {len(complete)} directories did not come in 600 s")
        time.sleep(0.25)
    return copied, time.monotonic() - began


def make_small_files(path, count):
    noise = random.Random(1)
    for number in range(count):
        directory = os.path.join(path, str(number // 100))
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"{number}.txt"), "wb") as file:
            file.write(noise.randbytes(4096))


def measure(concord, base, files=10000, saves=200, gigabytes=1, items=100_000, dataless=10):
    """Prints all results and returns the number of bounds missed."""
    source = os.path.join(base, "source")
    make_small_files(source, files)
    pairs = [Concord(base, concord)]
    if shutil.which("syncthing"):
        pairs.append(Syncthing(base))
    if shutil.which("unison"):
        pairs.append(Unison(base))
    print("\nTwo devices on one machine; medians")
    missed = 0
    for pair in pairs:
        is_ours = pair.name == "concord"
        try:
            missed += pair_of_devices(pair, source, files, saves if is_ours else max(5, saves // 10), is_ours)
            if is_ours:
                pair.settle()
                missed += deltas(pair, gigabytes) + rename(pair, items) + on_demand(pair, dataless)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            if is_ours:
                raise
            print(f"{pair.name:12} is skipped here: {error}", flush=True)
        finally:
            pair.stop()
    shutil.rmtree(source)
    return missed


def pair_of_devices(pair, source, files, saves, is_ours):
    missed = 0

    def say(line, kept, bound):
        nonlocal missed
        if is_ours:
            line, missed = judged(line, kept, bound, missed)
        print(line, flush=True)

    pair.start()
    taken = sorted(latency(pair, saves))
    median = statistics.median(taken)
    say(f"{pair.name:12} a save is read on the other after {median * 1e3:6.0f} ms "
        f"(of 10, 9 within {taken[len(taken) * 9 // 10] * 1e3:.0f}; over {len(taken)})",
        median <= LATENCY_BOUND, "< 100 ms")
    taken = alternating(pair, saves)
    median, late = statistics.median(taken), taken[len(taken) * 99 // 100]
    say(f"{pair.name:12} edits that alternate with pauses of 100 ms are read after {median * 1e3:6.0f} ms "
        f"(of 100, 99 within {late * 1e3:.0f}; over {len(taken)})",
        median <= ALTERNATING_BOUND and late <= ALTERNATING_LATE_BOUND, "<= 60 ms, 99 of 100 <= 200 ms")
    pair.settle()
    copied, took = small_files(pair, source)
    say(f"{pair.name:12} {files:,} files of 4 KiB: copied in {copied:.1f} s, on the other after "
        f"{took:.1f} s, {files / took:,.0f} a second", files / took >= FILES_BOUND, f">= {FILES_BOUND:,}")
    return missed


def judged(line, kept, bound, missed):
    return f"{line}  {'ok' if kept else 'MISSED'} ({bound})", missed + (not kept)


def deltas(pair, gigabytes):
    """The bytes that a change of a large file sends."""
    missed = 0
    path = os.path.join(pair.a, "large")
    with open(path, "wb") as file:
        for _ in range(gigabytes * 64):
            file.write(os.urandom(16 << 20))
    pair.settle()
    before = pair.counted("received_bytes_total")
    with open(path, "r+b") as file:
        file.seek(gigabytes * 512 << 20)
        file.write(os.urandom(1000))
    pair.settle()
    sent = pair.counted("received_bytes_total") - before
    line, missed = judged(f"concord      {gigabytes} GiB, 1,000 bytes changed in the middle: {sent / 1e6:.2f} MB sent",
                          sent <= LARGE_BOUND, "<= 2 MiB", missed)
    print(line, flush=True)

    path = os.path.join(pair.a, "base.sqlite")
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text BLOB)")
    base.executemany("INSERT INTO t(text) VALUES(?)", ((os.urandom(450),) for _ in range(180_000)))
    base.commit()
    base.close()
    pair.settle()
    size = os.path.getsize(path)
    before = pair.counted("received_bytes_total")
    base = sqlite3.connect(path)
    for row in random.Random(2).sample(range(1, 180_000), 100):
        base.execute("UPDATE t SET text = ? WHERE id = ?", (os.urandom(450), row))
    base.commit()
    base.close()
    pair.settle()
    sent = pair.counted("received_bytes_total") - before
    line, missed = judged(f"concord      SQLite of {size / 1e6:.0f} MB, 100 random rows changed: {sent / 1e6:.2f} MB "
                          f"sent, {sent / size:.1%}", sent <= DATABASE_BOUND * size, "<= 5 %", missed)
    print(line, flush=True)
    return missed


def rename(pair, items):
    tree = os.path.join(pair.a, "tree")
    for number in range(items):
        if number % 1000 == 0:
            os.makedirs(os.path.join(tree, str(number // 1000)))
        os.close(os.open(os.path.join(tree, str(number // 1000), str(number)), os.O_CREAT | os.O_WRONLY))
    began = time.monotonic()
    pair.settle(1200)
    took = time.monotonic() - began
    before = pair.counted("operations_total")
    began = time.monotonic()
    os.rename(tree, tree + "2")
    until(lambda: os.path.isdir(os.path.join(pair.b, "tree2")), 60, "the new name")
    seen = time.monotonic() - began
    pair.settle()
    sent = pair.counted("operations_total") - before
    line, missed = judged(f"concord      a folder of {items:,} items (in step {took:.0f} s after it was made) renamed: "
                          f"{sent} operation(s), seen after {seen * 1e3:.0f} ms", sent == 1, "1", 0)
    print(line, flush=True)
    return missed


def on_demand(pair, gigabytes):
    path = os.path.join(pair.a, "film")
    with open(path, "wb") as file:
        for _ in range(gigabytes * 64):
            file.write(os.urandom(16 << 20))
    pair.settle(1800)
    there = os.path.join(pair.b, "film")
    pair.quiet(pair.fsctl, "evict", there)
    began = time.monotonic()
    with open(there, "rb") as file:
        got = file.read(1 << 20)
    took = time.monotonic() - began
    with open(path, "rb") as file:
        same = file.read(1 << 20) == got
    line, missed = judged(f"concord      the first MiB of a dataless file of {gigabytes} GiB: "
                          f"{took * 1e3:.0f} ms", took < 1 and same, "< 1 s", 0)
    print(line, flush=True)
    return missed


if __name__ == "__main__":
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("concord")
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--saves", type=int, default=200)
    parser.add_argument("--gigabytes", type=int, default=1)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dataless", type=int, default=10)
    parser.add_argument("--directory", default="/var/tmp")
    options = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="concord-bench.", dir=options.directory)
    try:
        measure(os.path.abspath(options.concord), scratch, options.files, options.saves, options.gigabytes,
                options.items, options.dataless)
    finally:
        shutil.rmtree(scratch)
