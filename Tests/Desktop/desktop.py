#!/usr/bin/env python3
"""Uses Concord in file managers and by its status icon: `make test-desktop`, which runs it as a
user of a Debian that Tests/Desktop/run makes."""

import os
import sys
import traceback

sys.path.append("/usr/share/concord/desktop")

import filemanagers  # noqa: E402
import links  # noqa: E402
import statusicon  # noqa: E402
from session import HOME, Fleet, Session, put, run  # noqa: E402


def fill(fleet):
    """Makes documents of all states on the second device, which the file managers show."""
    os.mkdir(fleet.one + "/Letters")
    put(fleet.one + "/Letters/a.txt", "first\n")
    put(fleet.one + "/Letters/a.txt", "second\n")
    for name in ("safe.txt", "there.txt", "both.txt", "thrown.txt", "minutes"):
        put(f"{fleet.one}/{name}", f"the contents of {name}\n")
    run("convert", "-size", "300x200", "plasma:red-blue", fleet.one + "/picture.png")
    fleet.sent()
    run("fsctl", "offline", "--at", fleet.two)
    put(fleet.two + "/both.txt", "edited at two\n")
    put(fleet.one + "/both.txt", "edited at one\n")
    run("fsctl", "wait", "--durable", "hub", fleet.one)
    run("fsctl", "online", "--at", fleet.two)
    fleet.sent()
    for name in ("there.txt", "minutes", "picture.png"):
        run("fsctl", "evict", f"{fleet.two}/{name}")


def main():
    fleet = Fleet()
    session = None
    try:
        fill(fleet)
        session = Session()
        filemanagers.check(fleet, session)
        links.check(fleet, session)
        statusicon.check(fleet, session)
        with open(f"{HOME}/session.log", errors="replace") as log:
            assert "Traceback" not in log.read(), "an extension has failed: see session.log"
    except BaseException:
        # What ends the test may fail as well, and must not hide this.
        traceback.print_exc()
        raise
    finally:
        if session:
            session.close()
        fleet.close()
    print("Everything on the desktop does what it says.")


if __name__ == "__main__":
    main()
