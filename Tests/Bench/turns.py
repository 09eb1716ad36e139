"""The cost of coordination: opens with and without it, opens beside many claims, and claims compared with flock."""

import os
import statistics
import subprocess

from targets import Target

OPEN_BOUND = 1.02
TIMES = 20000


def run(tools, *words):
    text = subprocess.check_output([os.path.join(tools, "turns"), *words], text=True)
    values = text.split()
    return dict(zip(values[::2], map(float, values[1::2])))


def measure(tools, concord, base, rounds):
    """Measures two mounts alternately, prints medians, and returns the number of bounds missed."""
    def command(options):
        return lambda store, path: [concord, "mount", "--foreground", "--store", store, "-o", options, path]

    plain = Target("without", base, command("nocoordination"))
    turning = Target("with", base, command("coordination"))
    try:
        for target in (plain, turning):
            target.start()
            with open(os.path.join(target.path, "document"), "w") as document:
                document.write("x" * 64)
        return compare(tools, plain, turning, rounds)
    finally:
        for target in (plain, turning):
            target.stop()


def compare(tools, plain, turning, rounds):
    socket = os.getxattr(turning.path, "user.concord.socket").decode()
    print("\nCoordination: microseconds for an operation, tmpfs; medians")

    def side_by_side():
        pairs = []
        for _ in range(rounds):
            taken = run(tools, "pair", plain.path, str(TIMES), turning.path)
            pairs.append((taken["first"], taken["second"]))
        ratio = statistics.median(b / a for a, b in pairs)
        return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio

    without, with_turns, ratio = side_by_side()
    kept = ratio <= OPEN_BOUND
    print(f"open-read-close                without {without:8.2f}  with {with_turns:8.2f}  ratio {ratio:.3f}  "
          f"{'ok' if kept else 'MISSED'} (<= {OPEN_BOUND})")

    claim = statistics.median(
        run(tools, "claim", turning.path, str(TIMES // 4), socket)["claim"] for _ in range(rounds))
    flock = statistics.median(run(tools, "flock", turning.path, str(TIMES // 4))["flock"] for _ in range(rounds))
    print(f"a coordinated access {claim:.1f} ({1e6 / claim:,.0f} a second); "
          f"open, flock, unlock, close {flock:.1f} ({1e6 / flock:,.0f} a second)")

    holder = subprocess.Popen(
        [os.path.join(tools, "turns"), "hold", turning.path, "10000", socket],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        words = holder.stdout.readline().split()
        print(f"10,000 claims on as many documents: {words[1]} each of the first thousand, "
              f"{words[3]} each of the last")
        without, with_turns, ratio = side_by_side()
        print(f"open-read-close among them     without {without:8.2f}  with {with_turns:8.2f}  ratio {ratio:.3f}")
    finally:
        holder.stdin.close()
        holder.wait()
    return 0 if kept else 1
