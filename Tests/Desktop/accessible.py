#!/usr/bin/env python3
"""accessible.py: tells what the windows of a desktop say, and presses what is in them, by AT-SPI.

Runs in the session of the desktop. Each line of the input is a request in JSON, and each line of
the output its answer:

    {"look": null}      all texts that are showing, as [role, name, text, states]
    {"press": NAME}     does what a button or an entry of a menu does; true if there is one
"""
import json
import sys

import gi
import pyatspi

PRESSED = {"push button", "toggle button", "menu item", "radio button", "check box"}
STATES = {pyatspi.STATE_FOCUSED: "focused", pyatspi.STATE_ACTIVE: "active",
          pyatspi.STATE_EDITABLE: "editable"}


def everything(accessible, is_menu=False):
    """What is in a window, and all entries of its menus, which show only while a menu is open."""
    try:
        role, states = accessible.getRoleName(), accessible.getState()
        is_menu = is_menu or role in ("menu", "menu bar")
        if not is_menu and role != "application" and not states.contains(pyatspi.STATE_SHOWING):
            return
        yield accessible, role, states, is_menu
        # A text document has more paragraphs than anybody asks for, and a table more cells.
        children = [accessible[index] for index in range(min(accessible.childCount, 200))]
    except (gi.repository.GLib.Error, LookupError, RuntimeError, NotImplementedError):
        # The window has been closed meanwhile.
        return
    for child in children:
        if child is not None:
            yield from everything(child, is_menu)


def desktop():
    for application in pyatspi.Registry.getDesktop(0):
        if application is not None:
            yield from everything(application)


def text(accessible):
    try:
        return accessible.queryText().getText(0, -1)
    except (gi.repository.GLib.Error, NotImplementedError):
        return ""


def look(_):
    found = []
    for accessible, role, states, is_menu in desktop():
        if not is_menu:
            names = [name for state, name in STATES.items() if states.contains(state)]
            found.append([role, accessible.name, text(accessible), names])
    return found


def press(name):
    for accessible, role, states, _ in desktop():
        # GTK marks the letter of an entry's short cut with an underscore.
        if role in PRESSED and accessible.name.replace("_", "") == name:
            if states.contains(pyatspi.STATE_SENSITIVE):
                return accessible.queryAction().doAction(0)
    return False


def main():
    for line in sys.stdin:
        ((verb, argument),) = json.loads(line).items()
        try:
            answer = {"look": look, "press": press}[verb](argument)
        except gi.repository.GLib.Error as error:
            answer = {"failed": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
