"""Members that keep records, and a proxy that spreads connections over them in turn. PUT
/records/KEY keeps a record, and GET /audit returns all records. A member that finds a file in its
data folder at its start adds a record about it."""

import http.client, itertools, json, os, socket, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

role, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


def forward(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def proxy(members, member_port):
    turn = itertools.cycle(members)
    listener = socket.create_server((host, port))
    while True:
        client, _ = listener.accept()
        for _ in members:
            try:
                member = socket.create_connection((next(turn), member_port), 1)
            except OSError:
                continue
            member.settimeout(None)
            for pair in ((client, member), (member, client)):
                threading.Thread(target=forward, args=pair, daemon=True).start()
            break
        else:
            client.close()


class Member(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    records, lock = {}, threading.Lock()

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        key = self.path.removeprefix("/records/")
        with self.lock:
            self.records[key] = body
            with open(os.path.join(self.data, key), "w") as kept:
                kept.write(body)
        if self.copies == "all" and not self.headers.get("x-copy"):
            for peer in self.peers:
                try:
                    link = http.client.HTTPConnection(peer, port, timeout=1)
                    link.request("PUT", self.path, body, {"x-copy": "1"})
                    link.getresponse().read()
                    link.close()
                except OSError:
                    pass
        self.answer("")

    def do_GET(self):
        with self.lock:
            held = {key: {"value": value, "version": "1"} for key, value in self.records.items()}
        self.answer(json.dumps({"records": held}))

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


if role == "proxy":
    proxy(sys.argv[4].split(","), int(sys.argv[5]))
Member.data, Member.peers, Member.copies = sys.argv[4], [peer for peer in sys.argv[5].split(",") if peer], sys.argv[6]
for key in os.listdir(Member.data):
    with open(os.path.join(Member.data, key)) as kept:
        Member.records[key] = kept.read()
    Member.records["left-over"] = "what was there at the start"
ThreadingHTTPServer((host, port), Member).serve_forever()
