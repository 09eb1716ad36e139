"""The time until a MetadataQuery has its first results, compared with `ls -lR`."""

import os
import statistics
import subprocess
import time

from targets import Target

BOUND = 2.0
DIRECTORIES = 100


def measure(concord, base, files, rounds):
    """Prints medians, and returns the number of bounds missed."""
    program = os.path.join(os.path.dirname(concord), "turns-program")
    if not os.path.exists(program):
        print(f"\nQueries: skipped, because {program} is missing (make programs)")
        return 0
    target = Target("queries", base, lambda store, path: [concord, "mount", "--foreground", "--store", store, path])
    target.start()
    try:
        for number in range(DIRECTORIES):
            directory = os.path.join(target.path, str(number))
            os.mkdir(directory)
            for file in range(files // DIRECTORIES):
                with open(os.path.join(directory, str(file)), "w") as content:
                    content.write("x")
        subprocess.run([os.path.join(os.path.dirname(concord), "fsctl"), "wait", "--durable", "disk", target.path], check=True)
        taken = {"ls": [], "query": []}
        for _ in range(rounds):
            began = time.monotonic()
            subprocess.run(["ls", "-lR", target.path], stdout=subprocess.DEVNULL, check=True)
            taken["ls"].append(time.monotonic() - began)
            seconds, count = subprocess.check_output([program, "query", target.path], text=True).split()
            if int(count) < files:
                raise RuntimeError(f"the query found {count} of {files} items")
            taken["query"].append(float(seconds))
        ls, query = (statistics.median(taken[name]) for name in ("ls", "query"))
        kept = query <= BOUND * ls
        print(f"\nQueries: {files} files, seconds; medians\n"
              f"ls -lR {ls:.3f}  first results {query:.3f}  ratio {query / ls:.2f}  "
              f"{'ok' if kept else 'MISSED'} (<= {BOUND:.2f})")
        return 0 if kept else 1
    finally:
        target.stop()
