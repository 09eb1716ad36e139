"""Which files are to stay on this device, for menus, which need to know it at once."""

import os
import time

import concord_files


class Pins:
    """What people have set on one volume, asked through the socket that a conversation knows.

    File managers wait while a menu is made, and make one or two at each selection. So an answer
    that takes longer than a moment is done without, and after a slow one the daemon rests.
    """

    SECONDS_MAX = 0.1
    SECONDS_SLOW = 0.02
    RESTS = 5

    def __init__(self, conversation):
        self._conversation = conversation
        self._rests_until = 0

    def kept(self, paths):
        """Returns for each of the files whether it is to stay here; None if that is unknown."""
        began = time.monotonic()
        address = self._conversation.address
        if address is None or began < self._rests_until:
            return [None for _ in paths]
        root = self._conversation.root
        above = concord_files.wire(os.path.commonpath(paths), root)
        try:
            pins = concord_files.ask_at(address, Pins.SECONDS_MAX, "pins", path=above)["pins"]
        except (OSError, concord_files.Refusal):
            return [None for _ in paths]
        finally:
            now = time.monotonic()
            if now - began > Pins.SECONDS_SLOW:
                self._rests_until = now + Pins.RESTS * (now - began)
        settings = {concord_files.unwired(pin["path"]): pin["pinned"] for pin in pins}
        return [is_kept(concord_files.relative(path, root), settings) for path in paths]


def is_kept(path, settings):
    """Returns what is set for a path, or else for the nearest directory above it."""
    while path and path not in settings:
        path = os.path.dirname(path)
    return settings.get(path, False)
