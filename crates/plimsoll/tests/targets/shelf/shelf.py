"""A server for the tests of storage tiers: each request writes a block to its data, synced, and a line to its logs."""

import http.server
import os
import sys

HOST, PORT, FOLDERS = sys.argv[1], int(sys.argv[2]), sys.argv[3:5]


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status = 200
        try:
            for folder in FOLDERS:
                with open(os.path.join(folder, "written"), "wb") as file:
                    file.write(b"w" * 4096)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError:
            status = 507
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


for folder in FOLDERS:
    with open(os.path.join(folder, "starts"), "a") as starts:
        starts.write(f"{os.getpid()}\n")

http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer((HOST, PORT), Answers).serve_forever()
