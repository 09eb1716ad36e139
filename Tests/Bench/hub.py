#!/usr/bin/env python3
"""Measures what a hub can do at each of its places, in one run: embedded (SQLite and a directory), with PostgreSQL and S3,
the same with a delay added to each round trip, and two and three hubs there.

The load generator, the hubs, PostgreSQL and S3 share this machine, so each table of rates has one with the time of the
processor that each of them used. Only ratios within one run mean anything. A place that fails is a line, not the end.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
from hub_load import Plan, Split, another, editor, part  # noqa: E402
from hub_places import Hubs, Missing, Servers  # noqa: E402
from results import Results  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
VOLUMES = 8
USERS = ["user%d" % number for number in range(VOLUMES)]
# The number of hubs, and whether round trips are delayed; None: no servers.
PLACES = {"embedded": (1, None), "postgres": (1, False), "delayed": (1, True), "two-hubs": (2, False),
          "three-hubs": (3, False), "two-delayed": (2, True)}
PARTS = ("edits", "volumes", "feeds", "join", "check")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--concord", required=True, help="the concord program to measure")
    parser.add_argument("--history", metavar="FOLDER", help="keep the figures there as JSON, and draw the tables as SVG")
    parser.add_argument("--places", default=",".join(PLACES), help="the places, separated by commas")
    parser.add_argument("--only", default=",".join(PARTS), help="the parts: " + ", ".join(PARTS))
    parser.add_argument("--edits", type=int, default=4000, help="edits of each measurement of rates")
    parser.add_argument("--batch", type=int, default=100, help="edits in a commit that has several")
    parser.add_argument("--devices", type=int, default=1000, help="devices with an open feed")
    parser.add_argument("--saves", type=int, default=50, help="saves that all devices are told of")
    parser.add_argument("--idle", type=float, default=32, help="seconds for which the devices are idle")
    parser.add_argument("--items", type=int, default=20000, help="items of the volume that a device joins")
    parser.add_argument("--check", type=int, default=100000, help="items of the embedded hub that is checked")
    parser.add_argument("--delay", type=int, default=1000, help="microseconds that are added to a round trip")
    parser.add_argument("--directory", default="/var/tmp", help="a place on the disk")
    return parser.parse_args()


class Bench:
    def __init__(self, options):
        self.options, self.rows, self.missed = options, {}, []
        self.base = tempfile.mkdtemp(prefix="concord-bench-hub.", dir=options.directory)
        os.chmod(self.base, 0o711)
        for name in ("hubload", "delay"):
            subprocess.run(["cc", "-O2", os.path.join(HERE, name + ".c"), "-o", os.path.join(self.base, name)], check=True)
        self.servers = Servers(self.base, self.base)
        self.parts = options.only.split(",")

    def add(self, table, row, place, value):
        self.rows.setdefault(table, {}).setdefault(row, {})[place] = value
        print("%-12s %-34s %-44s %12.2f" % (place, table.split(":")[0], row, value), flush=True)

    def need(self, is_met, sentence):
        if not is_met:
            self.missed.append(sentence)
            print("MISSED: " + sentence, flush=True)

    def place(self, name):
        count, delay = PLACES[name]
        options = [] if delay is None else self.servers.place(self.options.delay if delay else 0)
        hubs = Hubs(os.path.abspath(self.options.concord), self.base, options, count, USERS)
        try:
            for what in ("edits", "volumes", "feeds", "join"):
                if what in self.parts:
                    getattr(self, what)(name, hubs)
        finally:
            hubs.stop()

    def timed(self, plan, table, row, name, edits):
        """Carries out a plan of edits, and notes the rate and what it cost. Returns the answers."""
        before = (plan.hubs.used(), *self.servers.used())
        found = plan.begin(self.base).end()
        if found.applied != edits:
            raise RuntimeError("%d of %d edits were applied" % (found.applied, edits))
        after = (plan.hubs.used(), *self.servers.used())
        self.add(table, row, name, edits / found.seconds)
        costs = [b - a for a, b in zip(before, after)] + [found.cpu]
        for what, cost in zip(("hubs", "PostgreSQL", "S3", "proxy", "load generator"), costs):
            if not cost:
                continue
            self.rows.setdefault("Processor, %s: ms an edit" % row, {}).setdefault(what, {})[name] = cost * 1e3 / edits
        print("%12s ms of the processor an edit: hubs %.2f, PostgreSQL %.2f, S3 %.2f, proxy %.2f, load generator %.2f" % (
            "", *(cost * 1e3 / edits for cost in costs)), flush=True)
        return found

    # Commits

    def edits(self, name, hubs):
        table = "Edits a second on one volume"
        first = editor(hubs, USERS[0])
        others = [another(first, hubs, number) for number in range(1, 16)]
        total, batch = self.options.edits, self.options.batch
        alone = max(1, total // 8)
        plan = Plan(hubs)
        plan.add(first.edits(alone))
        times = self.timed(plan, table, "one after the other", name, alone).times()
        self.add("Time of a commit with one edit: ms", "median", name, part(times, 0.5) * 1e3)
        self.add("Time of a commit with one edit: ms", "99 of 100 within", name, part(times, 0.99) * 1e3)
        plan, each = Plan(hubs), max(1, total // 16)
        for one in [first] + others:
            plan.add(one.edits(each))
        self.timed(plan, table, "single, of 16 devices at once", name, each * 16)
        plan = Plan(hubs)
        plan.add(first.edits(total // batch, batch))
        self.timed(plan, table, "batched, of one device", name, total // batch * batch)
        batched = self.rows[table]["batched, of one device"][name]
        bound = 500 if PLACES[name][1] else 2000
        self.need(batched >= bound, "%s: %.0f edits a second batched, and not %d" % (name, batched, bound))
        plan, commits = Plan(hubs), max(1, total // batch // 4)
        for one in [first] + others[:3]:
            plan.add(one.edits(commits, batch))
        self.timed(plan, table, "batched, of four devices at once", name, commits * 4 * batch)
        plan = Plan(hubs)
        plan.add(first.saves(total // batch, batch))
        self.timed(plan, table, "batched, with new contents of 1 kB", name, total // batch * batch)

    def volumes(self, name, hubs):
        table = "Edits a second on eight volumes of eight accounts"
        total, batch = self.options.edits * 2, self.options.batch
        editors = [editor(hubs, user, number) for number, user in enumerate(USERS)]
        plan, each = Plan(hubs), max(1, total // 2 // VOLUMES)
        for one in editors:
            plan.add(one.edits(each))
        self.timed(plan, table, "single, of a device each", name, each * VOLUMES)
        plan, commits = Plan(hubs), max(1, total // batch // VOLUMES)
        for one in editors:
            plan.add(one.edits(commits, batch))
        self.timed(plan, table, "batched, of a device each", name, commits * VOLUMES * batch)

    # Feeds

    def feeds(self, name, hubs):
        count = self.options.devices
        saver = editor(hubs, USERS[-1])
        listeners = [Split(saver.device, number) for number in range(count - 1)]
        before = hubs.memory()
        plan = Plan(hubs)
        for one in listeners:
            plan.add([one.feed()], "feed")
        plan.add(saver.edits(self.options.saves), pace=100_000)
        run = plan.begin(self.base, self.options.idle)
        used = hubs.used()
        time.sleep(self.options.idle * 0.9)
        self.idle(name, before, hubs.memory(), (hubs.used() - used) / (self.options.idle * 0.9))
        found = run.end()
        times, missing = found.told()
        table = "Time until all of %d devices are told of a save: ms" % count
        for what, share in (("median", 0.5), ("99 of 100 within", 0.99), ("the slowest", 1)):
            self.add(table, what, name, part(times, share) * 1e3)
        self.need(not missing, "%s: %d hints did not come" % (name, missing))
        slow = part(times, 0.99)
        self.need(slow < 0.25, "%s: 99 of 100 devices were told within %.0f ms, and not 250" % (name, slow * 1e3))
        self.add("Bytes that an idle device gets: B", "a minute", name,
                 found.idle_bytes / len(listeners) * 60 / self.options.idle)

    def idle(self, name, before, after, processor):
        table = "Memory of a hub with %d idle devices: MB" % self.options.devices
        self.add(table, "the largest hub", name, max(after) / 1e6)
        self.add(table, "before the feeds were opened", name, max(before) / 1e6)
        grown = sum(after) - sum(before)
        self.add("An idle device: kB of memory, microseconds of the processor a second", "memory", name,
                 max(0, grown) / self.options.devices / 1e3)
        self.add("An idle device: kB of memory, microseconds of the processor a second", "processor", name,
                 processor / self.options.devices * 1e6)
        self.need(max(after) < 200e6, "%s: a hub with idle devices has %.0f MB, and not 200" % (name, max(after) / 1e6))

    # Many items

    def fill(self, name, hubs, items):
        """Makes a volume of one's own with so many items, and returns its editor."""
        one = editor(hubs, USERS[1], documents=1)
        # The requests of all would be too large for the memory.
        for part in range(0, items, 50_000):
            plan, end = Plan(hubs), min(items, part + 50_000)
            plan.add([request for start in range(part, end, 500) for request in one.creations(min(500, end - start))])
            self.timed(plan, "Documents made a second", "500 in a commit", name, end - part)
        return one

    def join(self, name, hubs):
        one = self.fill(name, hubs, self.options.items)
        plan = Plan(hubs)
        plan.add([one.page(after) for after in range(0, self.options.items, 1000)])
        used = hubs.used()
        found = plan.begin(self.base).end()
        table = "A cold join: items a second, and bytes an item"
        self.add(table, "items a second", name, self.options.items / found.seconds)
        self.add(table, "bytes an item", name, found.received / self.options.items)
        self.add("Processor of the hub, cold join: microseconds an item", "hub", name,
                 (hubs.used() - used) / self.options.items * 1e6)

    def check(self):
        """Checks an embedded hub with many items, which does not run."""
        hubs = Hubs(os.path.abspath(self.options.concord), self.base, [], 1, USERS)
        try:
            self.fill("check", hubs, self.options.check)
            hubs.processes[0].terminate()
            hubs.processes[0].wait()
            start = time.monotonic()
            process = subprocess.Popen(
                [hubs.program, "hub", "check", "--data", hubs.data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            most, said = 0, []
            for line in process.stdout:
                said.append(line)
                with open("/proc/%d/status" % process.pid) as status:
                    most = max([most] + [int(line.split()[1]) for line in status if line.startswith("VmHWM")])
            process.wait()
            taken = time.monotonic() - start
            print("".join(said[-3:]), end="")
            table = "Check of an embedded hub with %d items" % self.options.check
            self.add(table, "seconds", "embedded", taken)
            self.add(table, "lines of progress", "embedded", len(said) - 1)
            self.add(table, "memory when it last said something: MB", "embedded", most / 1e3)
            bound = 60 * self.options.check / 1e6
            self.need(taken < max(bound, 5), "the check took %.0f s, and not %.0f" % (taken, bound))
        finally:
            hubs.stop()

    def run(self):
        for name in self.options.places.split(","):
            print("\n" + name, flush=True)
            try:
                self.place(name)
            except Missing as error:
                print("%s is skipped: %s" % (name, error), flush=True)
            except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
                self.missed.append("%s failed: %s" % (name, error))
                print("%s failed: %s" % (name, error), flush=True)
                traceback.print_exc(limit=-2)
        if "check" in self.parts:
            self.check()
        self.compare()
        self.keep()

    def compare(self):
        """Prints the tables with ratios to the first place that was measured."""
        for title, rows in self.rows.items():
            names = list(dict.fromkeys(name for row in rows.values() for name in row))
            print("\n%s\n%-38s" % (title, "") + "".join("%20s" % name for name in names))
            for what, row in rows.items():
                base = next(iter(row.values()))
                cells = [("%11.2f" % row[name] + (" (x %.2f)" % (row[name] / base) if base else "")) if name in row else "-"
                         for name in names]
                print("%-38s" % what + "".join("%20s" % cell for cell in cells))
        rows = self.rows.get("Edits a second on eight volumes of eight accounts", {})
        for what, row in rows.items():
            if "postgres" in row and "two-hubs" in row:
                ratio = row["two-hubs"] / row["postgres"]
                self.need(ratio >= 1.7, "two hubs do %.2f times as many edits as one (%s), and not 1.7" % (ratio, what))
        print("\n" + ("\n".join("MISSED: " + sentence for sentence in self.missed) or "all aims are met"))

    def keep(self):
        if not self.options.history:
            return
        results = Results(self.options.concord)
        for title, rows in self.rows.items():
            more = "a second" in title.split(":")[0]
            results.add(title, title.split(": ")[-1], rows, "longer" if more else "shorter")
        folder = os.path.join(self.options.history, "hub-" + time.strftime("%Y%m%d-%H%M%S"))
        results.draw(folder)
        results.save(folder + ".json")
        print("kept in %s.json and %s" % (folder, folder))

    def clean(self):
        self.servers.stop()
        shutil.rmtree(self.base, ignore_errors=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = Bench(arguments())
    try:
        bench.run()
        return int(bool(bench.missed))
    finally:
        bench.clean()


if __name__ == "__main__":
    sys.exit(main())
