"""A server for the tests: it counts its answers, and reports its figures at /stats."""

import http.server
import json
import sys

HOST, PORT = sys.argv[1], int(sys.argv[2])
served = 0


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global served
        body = b"x"
        if self.path == "/stats":
            queues = {"in": {"depth": 3}, "out": {"depth": 4}}
            body = json.dumps({"requests": {"served": served}, "queues": queues}).encode()
        else:
            served += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


Server((HOST, PORT), Answers).serve_forever()
