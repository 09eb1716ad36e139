"""A hub that a benchmark starts and ends."""
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time


class Hub:
    """A hub on a directory of its own, with the accounts anna and berta."""

    def __init__(self, program, is_tls):
        self.program, self.base = program, tempfile.mkdtemp(prefix="concord-bench.")
        self.data = os.path.join(self.base, "data")
        for user in ("anna", "berta"):
            self.run("user", "add", user)
        words = [program, "hub", "--data", self.data, "--listen", "127.0.0.1:0"]
        self.tls = None
        if is_tls:
            key, certificate = (os.path.join(self.base, name) for name in ("key", "certificate"))
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                 "-subj", "/CN=localhost"], check=True, capture_output=True)
            words += ["--tls-cert", certificate, "--tls-key", key]
            self.tls = ssl._create_unverified_context()
        self.log = open(os.path.join(self.base, "log"), "wb")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        mark = "the hub listens on "
        while mark not in self.said():
            time.sleep(0.05)
        self.address = self.said().split(mark)[1].split()[0]
        self.port = int(self.address.split(":")[-1])

    def said(self):
        with open(self.log.name) as log:
            return log.read()

    def run(self, *words):
        subprocess.run([self.program, "hub", *words, "--data", self.data], check=True, capture_output=True)

    def invite(self):
        return [
            "sh", "-c", "exec '%s' hub invite \"$0\" --data '%s'" % (self.program, self.data)]

    def memory(self, field):
        with open("/proc/%d/status" % self.process.pid) as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith(field))

    def connect(self, number):
        """Connects from one of several addresses, because the hub limits the connections of each."""
        line = socket.create_connection(
            ("127.0.0.1", self.port), timeout=30, source_address=("127.0.0.%d" % (1 + number // 300), 0))
        return self.tls.wrap_socket(line) if self.tls else line

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.base)
