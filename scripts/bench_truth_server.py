#!/usr/bin/env python3
"""A server of known behaviour, in another language than Plimsoll's. It has a fixed capacity, and stalls, fails,
breaks connections or is slow in given windows of time. When it is stopped it writes its record as a line of
JSON. It has one thread. Answers are planned in virtual time, so that a server that is kept from running loses
no capacity. Times count from the first request.

bench_truth_server.py PORT [--service S] [--workers N] [--exponential] [--seed N, 0: another each time] [--work ROUNDS] [--background SHARE] [--leak SHARE,OVER]
                      [--bucket RATE,BURST]                    a request without a token fails
                      [--window KIND,FROM,UNTIL[,HOW]]...      KIND: error (HOW: share), stall, reset, refuse, slow (HOW: seconds more)
"""

import argparse
import collections
import heapq
import json
import random
import select
import signal
import socket
import struct
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ERROR = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"
END = b"\r\n\r\n"
# A shorter window may go unnoticed.
TICK_S = 0.02

Window = collections.namedtuple("Window", "kind from_s until_s how")


def window(text):
    kind, *numbers = text.split(",")
    from_s, until_s, how = ([float(number) for number in numbers] + [1.0])[:3]
    return Window(kind, from_s, until_s, how)


class Server:
    def __init__(self, asked):
        self.asked = asked
        # With seed 0 each trial draws other values. Trials with a single seed would have an edge of
        # their own.
        self.chance = random.Random(asked.seed or None)
        self.poll = select.epoll()
        self.connections, self.due, self.number = {}, [], 0
        self.free_s = [0.0] * asked.workers
        self.tokens, self.filled_s = asked.bucket[1] if asked.bucket else 0.0, None
        self.first_s = None
        self.book = {"requests": 0, "ok": 0, "failed": 0, "windows": {}}
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.asked.port))
        self.listener.listen(4096)
        self.listener.setblocking(False)
        self.poll.register(self.listener, select.EPOLLIN)

    def run(self):
        while True:
            now_s = time.monotonic()
            self.windows(now_s)
            while self.due and self.due[0][0] <= now_s:
                _, _, connection, answer = heapq.heappop(self.due)
                self.send(connection, answer)
            # To the microsecond, which epoll alone does not wait. Not in a busy loop, which would
            # take CPU from the woken threads.
            wait_s = min(self.due[0][0] - now_s if self.due else TICK_S, TICK_S)
            select.select([self.poll], [], [], max(wait_s, 0))
            for number, _ in self.poll.poll(0):
                if number == (self.listener and self.listener.fileno()):
                    self.accept()
                else:
                    self.receive(self.connections.get(number))

    def at_s(self):
        return time.monotonic() - self.first_s if self.first_s is not None else -1.0

    def inside(self, kind):
        at_s = self.at_s()
        return next((one for one in self.asked.window if one.kind == kind and one.from_s <= at_s < one.until_s), None)

    def note(self, kind, count=0):
        """Records the first and the last Unix time of a disturbance, and adds to its count."""
        now_s = time.time()
        noted = self.book["windows"].setdefault(kind, {"first_unix_s": now_s, "last_unix_s": now_s, "count": 0})
        noted["last_unix_s"] = now_s
        noted["count"] += count

    def windows(self, now_s):
        stall = self.inside("stall")
        if stall:
            self.note("stall", 1)
            time.sleep(max(0.0, self.first_s + stall.until_s - now_s))
            self.note("stall")
        refuse = self.inside("refuse")
        if refuse and self.listener:
            self.note("refuse", 1)
            self.poll.unregister(self.listener)
            self.listener.close()
            self.listener = None
            for connection in list(self.connections.values()):
                self.close(connection, broken=True)
        elif not refuse and self.listener is None:
            self.listen()
            self.note("refuse")

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except (BlockingIOError, OSError):
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections[connection.fileno()] = connection
            self.poll.register(connection, select.EPOLLIN)

    def close(self, connection, broken=False):
        number = connection.fileno()
        if number < 0:
            return
        if broken:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.poll.unregister(connection)
        self.connections.pop(number, None)
        connection.close()

    def receive(self, connection):
        if connection is None:
            return
        try:
            bytes_ = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            bytes_ = b""
        if not bytes_:
            self.close(connection)
            return
        for _ in range(bytes_.count(END)):
            self.request(connection)

    def request(self, connection):
        now_s = time.monotonic()
        if self.first_s is None:
            self.first_s = now_s
            self.book["first_request_unix_s"] = time.time()
        self.book["requests"] += 1
        if self.inside("reset"):
            self.note("reset", 1)
            self.book["failed"] += 1
            self.close(connection, broken=True)
            return
        error = self.inside("error")
        fails = error and self.chance.random() < error.how
        if fails:
            self.note("error", 1)
        if fails or self.chance.random() < self.asked.background or not self.token(now_s):
            self.book["failed"] += 1
            self.send(connection, ERROR)
            return
        for _ in range(self.asked.work):
            pass
        self.book["ok"] += 1
        service_s = self.service_s()
        begins_s = now_s
        if self.free_s:
            begins_s = max(heapq.heappop(self.free_s), now_s)
            heapq.heappush(self.free_s, begins_s + service_s)
        if begins_s + service_s <= now_s:
            self.send(connection, ANSWER)
            return
        self.number += 1
        heapq.heappush(self.due, (begins_s + service_s, self.number, connection, ANSWER))

    def token(self, now_s):
        """Takes a token from the bucket. Returns whether there was one; without a bucket there always is."""
        if not self.asked.bucket:
            return True
        rate, burst = self.asked.bucket
        self.tokens = min(burst, self.tokens + rate * (now_s - (self.filled_s or now_s)))
        self.filled_s = now_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def service_s(self):
        service_s = self.asked.service
        if self.asked.exponential:
            service_s *= self.chance.expovariate(1.0)
        if self.asked.leak:
            share, over_s = self.asked.leak
            service_s *= 1 + share * self.at_s() / over_s
        slow = self.inside("slow")
        if slow:
            self.note("slow", 1)
            service_s += slow.how
        return service_s

    def send(self, connection, answer):
        try:
            connection.send(answer)
        except OSError:
            self.close(connection)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--service", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--exponential", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=int, default=0)
    parser.add_argument("--background", type=float, default=0.0)
    parser.add_argument("--leak", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--bucket", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--window", type=window, action="append", default=[])
    server = Server(parser.parse_args())

    def stop(*_):
        print(json.dumps(server.book), flush=True)
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.run()


if __name__ == "__main__":
    main()
