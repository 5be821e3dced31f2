"""A server for the tests. Its pages need the disk, the processor, memory, or only the network."""

import http.server
import os
import subprocess
import sys

HOST, PORT, DATA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# File that exists while the command fault lasts.
SIGN = "/tmp/closed"
GRAB = "import mmap; held = mmap.mmap(-1, 96 << 20); [held.__setitem__(at, 1) for at in range(0, len(held), 4096)]"


def write():
    """Answers when the note is on disk."""
    with open(os.path.join(DATA, f"note-{os.getpid()}"), "ab") as file:
        file.write(b"n" * 4096)
        file.flush()
        os.fsync(file.fileno())
    return 200


def work():
    sum(range(100_000))
    return 200


def grab():
    """Takes memory in a child process, so that the server survives when the kernel kills it."""
    return 200 if subprocess.run([sys.executable, "-c", GRAB]).returncode == 0 else 507


PAGES = {"/write": write, "/work": work, "/grab": grab, "/": lambda: 503 if os.path.exists(SIGN) else 200}


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            status = PAGES[self.path]()
        except OSError:
            status = 507
        body = b"x" * 4096
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A fault may restart the server at once.
    allow_reuse_address = True


Server((HOST, PORT), Answers).serve_forever()
