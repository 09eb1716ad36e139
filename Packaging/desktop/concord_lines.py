"""A conversation with a volume's daemon that never makes the program wait.

It runs in GLib's main loop, so a file manager can use it. There are no threads, because Python's
do not run while a file manager's main loop waits.
"""

import json

from gi.repository import Gio, GLib

import concord_files


class Conversation:
    """A connection to the daemon of one volume: requests, answers and events.

    What is asked before the connection is made is sent when it is. `ended` is called once, when
    the connection cannot be made or ends; requests that were not answered are then forgotten.
    """

    def __init__(self, root, ended, heard=None):
        self.root = root
        # The path of the daemon's socket; None until it is known.
        self.address = None
        self._ended, self._heard = ended, heard
        self._waiting = {}
        self._number = 0
        self._unsent = b""
        self._sending = False
        self._stream = None
        self._cancellable = Gio.Cancellable()
        # GIO reads the attribute in a thread of its own, since a stopped daemon does not answer.
        Gio.File.new_for_path(root).query_info_async(
            "xattr::concord.socket", Gio.FileQueryInfoFlags.NONE, GLib.PRIORITY_DEFAULT,
            self._cancellable, self._found)

    def ask(self, verb, done=None, progressed=None, **fields):
        """Sends a request. `done` gets the answer as a dictionary with `ok`.

        During long work `progressed` gets a fraction and a text again and again.
        """
        self._number += 1
        self._waiting[self._number] = (done, progressed)
        self._unsent += concord_files.request(self._number, verb, fields)
        self._send()

    def close(self):
        """Ends the conversation without calling `ended`."""
        self._ended = None
        self._end()

    # MARK: Steps

    def _found(self, file, outcome):
        try:
            address = file.query_info_finish(outcome).get_attribute_as_string(
                "xattr::concord.socket")
        except GLib.Error:
            address = None
        if not address:
            return self._end()
        self.address = address
        Gio.SocketClient().connect_async(
            Gio.UnixSocketAddress.new(address), self._cancellable, self._connected)

    def _connected(self, client, outcome):
        try:
            self._stream = client.connect_finish(outcome)
        except GLib.Error:
            return self._end()
        self._lines = Gio.DataInputStream.new(self._stream.get_input_stream())
        self._read()
        self._send()

    def _send(self):
        if self._stream is None or self._sending or not self._unsent:
            return
        self._sending = True
        self._stream.get_output_stream().write_bytes_async(
            GLib.Bytes.new(self._unsent), GLib.PRIORITY_DEFAULT, self._cancellable, self._sent)

    def _sent(self, output, outcome):
        try:
            count = output.write_bytes_finish(outcome)
        except GLib.Error:
            return self._end()
        self._unsent = self._unsent[count:]
        self._sending = False
        self._send()

    def _read(self):
        self._lines.read_line_async(GLib.PRIORITY_DEFAULT, self._cancellable, self._line)

    def _line(self, lines, outcome):
        try:
            line = lines.read_line_finish(outcome)[0]
        except GLib.Error:
            line = None
        # An end is an empty line for PyGObject, and the daemon sends none.
        if not line:
            return self._end()
        answer = json.loads(bytes(line))
        self._take(answer)
        if not self._cancellable.is_cancelled():
            self._read()

    def _take(self, answer):
        if "event" in answer:
            if self._heard:
                self._heard(answer["event"])
        elif "progress" in answer:
            progressed = self._waiting.get(answer.get("id"), (None, None))[1]
            if progressed:
                progressed(answer["progress"].get("fraction"), answer["progress"].get("text"))
        elif "ok" in answer:
            done = self._waiting.pop(answer.get("id"), (None, None))[0]
            if done:
                done(answer)

    def _end(self):
        self._cancellable.cancel()
        if self._stream:
            self._stream.close_async(GLib.PRIORITY_DEFAULT, None, None)
            self._stream = None
        self._waiting.clear()
        if self._ended:
            ended, self._ended = self._ended, None
            ended(self)
