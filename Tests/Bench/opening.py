#!/usr/bin/env python3
"""opening.py BEFORE AFTER: compares what opening files for reading costs with two concord programs.

Both are mounted side by side. They take turns, round by round, and the first of a round alternates. Each
process opens, reads and closes files that were opened before and files that no process has opened yet, which
is what remembering who has read what would cost. Prints medians in microseconds, and their ratio with the range
that contains nine tenths of the rounds' ratios. Exits with 1 when a median ratio exceeds 1.02. Only a quiet
machine gives figures that mean anything.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from targets import Target  # noqa: E402

BOUND = 1.02
HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", help="the concord program to compare with")
    parser.add_argument("after", help="the concord program to measure")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--files", type=int, default=4000)
    return parser.parse_args()


def mount(name, program, base, files):
    target = Target(name, base, lambda store, path: [program, "mount", "--foreground", "--store", store, path])
    target.start()
    for number in range(files):
        with open(os.path.join(target.path, f"{number}.txt"), "w") as file:
            file.write("x" * 100)
    return target


def measure(tool, path, files):
    """The times of one process: of the first opening of each file by it, and of the later ones."""
    text = subprocess.run([tool, path, str(files)], check=True, capture_output=True, text=True).stdout
    words = text.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def main():
    given = arguments()
    base = tempfile.mkdtemp(prefix="concord-opening.")
    targets = []
    try:
        tool = os.path.join(base, "opening")
        subprocess.run(["cc", "-O2", os.path.join(HERE, "opening.c"), "-o", tool], check=True)
        for name in ("before", "after"):
            targets.append(mount(name, os.path.abspath(getattr(given, name)), base, given.files))
        results = {target.name: [] for target in targets}
        for number in range(given.rounds + 2):
            for target in targets[::-1] if number % 2 else targets:
                result = measure(tool, target.path, given.files)
                # The first two rounds fill caches.
                if number > 1:
                    results[target.name].append(result)
    finally:
        for target in targets:
            target.stop()
        shutil.rmtree(base, ignore_errors=True)
    worst = 0.0
    for what in results["before"][0]:
        old, new = ([result[what] for result in results[name]] for name in ("before", "after"))
        ratios = sorted(y / x for x, y in zip(old, new))
        ratio = statistics.median(ratios)
        low, high = ratios[len(ratios) // 20], ratios[-1 - len(ratios) // 20]
        worst = max(worst, ratio)
        print(f"{what:24} before {statistics.median(old):8.3f} µs   after {statistics.median(new):8.3f} µs   "
              f"ratio {ratio:.3f} ({low:.3f} to {high:.3f})")
    sys.exit(worst > BOUND)


if __name__ == "__main__":
    main()
