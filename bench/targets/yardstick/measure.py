"""Measures the host it runs on and prints a line of JSON for each figure, then listens until it is ended.

Every figure is taken by a plain program that knows nothing of how the host is held back. Host 0 measures; the others wait.
"""

import argparse
import json
import mmap
import os
import random
import socket
import sys
import threading
import time

# For threads to be spread over the cores, before anything counts.
SETTLE_S = 1.5
CPU_S = 4.0
LINK_S = 4.0
DISK_S = 4.0
BLOCK = 4096


def say(name, value):
    print(json.dumps({"figure": name, "value": value}), flush=True)


def burn(begin, until, into):
    """Rounds of plain arithmetic between two moments, and the CPU time they took."""
    rounds, begun = 0, None
    while (now := time.monotonic()) < until:
        if begun is None and now >= begin:
            rounds, begun, since = 0, time.process_time(), now
        for _ in range(2000):
            rounds += 1
    os.write(into, json.dumps([rounds, time.process_time() - begun, now - since]).encode() + b"\n")


def burn_in(processes):
    """What so many processes at once got, in cores: their rounds a second, over the rounds of a CPU second."""
    reader, writer = os.pipe()
    begin = time.monotonic() + SETTLE_S
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            burn(begin, begin + CPU_S, writer)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        results = [json.loads(line) for line in pipe]
    return sum(rounds / wall_s / (rounds / cpu_s) for rounds, cpu_s, wall_s in results)


def measure_cpu(cores):
    say("one thread, cores", burn_in(1))
    say("all threads, cores", burn_in(cores))


def measure_memory():
    """Touches memory in a child until the kernel ends it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        step, held = 1 << 20, []
        while len(held) < 1 << 14:
            piece = mmap.mmap(-1, step)
            for at in range(0, step, BLOCK):
                piece[at] = 1
            held.append(piece)
            os.write(writer, b".")
        os._exit(0)
    os.close(writer)
    touched = 0
    while piece := os.read(reader, 65536):
        touched += len(piece)
    os.waitpid(child, 0)
    with open("/proc/self/status") as status:
        ours = next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))
    say("memory, bytes", touched * (1 << 20) + ours)


def connected(host, port):
    """A connection to another host, which may still be starting."""
    patience = time.monotonic() + 20.0
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            if time.monotonic() > patience:
                raise
            time.sleep(0.05)


def measure_link(peer, port):
    """Bits a second that another host gets from this one."""
    piece = b"x" * 65536
    with connected(peer, port) as link:
        begun = time.monotonic()
        while time.monotonic() < begun + LINK_S:
            link.send(piece)
        link.shutdown(socket.SHUT_WR)
        answer = json.loads(link.makefile().readline())
    say("link, bit/s", answer["bits_per_s"])


def sink(connection):
    """Takes what comes; the first second is left to the queues."""
    begun, got, first = None, 0, None
    while piece := connection.recv(1 << 16):
        now = time.monotonic()
        first = first or now
        if begun is None and now > first + 1.0:
            begun, got = now, 0
        got += len(piece)
    spent = time.monotonic() - (begun or first or time.monotonic())
    connection.sendall(json.dumps({"bits_per_s": got * 8 / spent if spent else 0}).encode() + b"\n")
    connection.close()


def measure_disk(data):
    """Writes past the page cache, then writes that are synced, each of 4 KiB at random in a file that is there."""
    path, size = os.path.join(data, "yardstick"), 16 << 20
    with open(path, "wb") as file:
        file.write(b"y" * size)
        os.fsync(file.fileno())
    for name, flags in [("disk writes, 1/s", os.O_DIRECT), ("synced writes, 1/s", 0)]:
        block = mmap.mmap(-1, BLOCK)
        file = os.open(path, os.O_RDWR | flags)
        begun, done = time.monotonic(), 0
        while time.monotonic() < begun + DISK_S:
            os.pwrite(file, block, random.randrange(size // BLOCK) * BLOCK)
            if not flags:
                os.fdatasync(file)
            done += 1
        say(name, done / (time.monotonic() - begun))
        os.close(file)
    os.remove(path)


def main():
    parser = argparse.ArgumentParser()
    for name in ["measure", "port", "index", "peers", "cores", "data"]:
        parser.add_argument("--" + name, required=True)
    asked = parser.parse_args()
    if asked.index != "0":
        serve(int(asked.port))
    kinds = asked.measure.split(",")
    if "cpu" in kinds:
        measure_cpu(int(asked.cores))
    if "memory" in kinds:
        measure_memory()
    if "link" in kinds:
        measure_link(asked.peers.split(",")[0], int(asked.port))
    if "disk" in kinds:
        measure_disk(asked.data)
    # Only now does it listen: that it is ready means that it has measured.
    serve(int(asked.port))


def serve(port):
    listener = socket.create_server(("0.0.0.0", port), backlog=16)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=sink, args=[connection], daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
