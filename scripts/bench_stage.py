"""Shared code of the benchmarks: processes that end with the benchmark, each pinned to a CPU;
servers; experiments; and the CPU time that they used. This module must not know what is
measured, or write results."""

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "target/tools/bin"
# Time limit for a process to end, and for a server to start.
PATIENCE_S = 30
PORTS = range(18080, 19080)


class Failed(Exception):
    """A program failed."""


@dataclasses.dataclass
class Done:
    """Output of a program, with the user and system CPU seconds and the peak memory of it and its children."""

    out: str
    err: str
    cpu_s: float
    begun_unix_s: float
    peak_bytes: int


@dataclasses.dataclass
class Server:
    """A server that accepts connections."""

    process: subprocess.Popen
    port: int
    # Time of the first connection to it.
    first_unix_s: float

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"


class Trial:
    """The only trial of a played experiment, or the first trial of a search."""

    def __init__(self, run, results, cpu_s):
        self.folder = run / "trials/001"
        self.results = results["trials"][0]
        self.safe_loads = results.get("safe_loads", [])
        self.whole_cpu_s = cpu_s

    def rows(self, name):
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    @property
    def start_unix_s(self):
        first = json.loads((self.folder / "events.jsonl").read_text().splitlines()[0])
        return first["unix_s"]

    @property
    def notices(self):
        lines = map(json.loads, (self.folder / "events.jsonl").read_text().splitlines())
        return [line["text"] for line in lines if line["event"] == "notice"]

    @property
    def operations(self):
        return sum(int(row["operations"]) for row in self.rows("generator.csv"))

    @property
    def engine_cpu_s(self):
        """CPU seconds of the engine's threads."""
        return sum(float(row["cpu_pct"]) / 100 * float(row["interval_s"]) for row in self.rows("generator.csv"))

    def samples(self, process):
        """Returns the samples of a process, one for each second."""
        return [row for row in self.rows("samples.csv") if row["process"] == process and float(row["at_s"]) > 0]

    def process_cpu_s(self, process, until_s, kinds=("user", "system")):
        """CPU seconds of all threads of a process during the load, or None if there is no sample."""
        busy = [
            sum(float(row[f"cpu_{kind}_pct"]) for kind in kinds)
            for row in self.samples(process)
            if float(row["at_s"]) < until_s + 0.5 and row["cpu_user_pct"]
        ]
        # A row covers one second, in percent of the whole machine.
        return sum(busy) / 100 * os.cpu_count() if busy else None


class Stage:
    """A temporary folder and processes. Both are removed at the end of the `with`, also after an exception."""

    def __init__(self, plimsoll):
        self.plimsoll = plimsoll
        self.processes = []
        self.played = 0
        cpus = sorted(os.sched_getaffinity(0))
        self.server_cpu, self.generator_cpu = cpus[0], cpus[-1]

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        # Started programs inherit the limit; some do not raise it themselves.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-bench-"))
        return self

    def __exit__(self, *_):
        # A second Ctrl-C must not leave anything behind, either.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in list(reversed(self.processes)):
            self.end(process)
        shutil.rmtree(self.folder, ignore_errors=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(self, words, cpu=None, out=subprocess.DEVNULL, err=subprocess.DEVNULL, environment=None, group=None):
        """Starts a process, on one CPU and in a control group if they are given."""

        def prepare():
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            preexec_fn=prepare,
        )
        self.processes.append(process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.processes:
            self.processes.remove(process)

    def finish(self, words, **how):
        """Runs a program to its end."""
        return self.collect(self.launch(words, **how))

    def launch(self, words, **how):
        """Starts a program whose output is collected later."""
        files = [tempfile.TemporaryFile("w+", dir=self.folder) for _ in range(2)]
        begun_unix_s = time.time()
        return self.start(words, out=files[0], err=files[1], **how), words, files, begun_unix_s

    def collect(self, launched):
        """Waits for a program's end."""
        process, words, files, begun_unix_s = launched
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.processes.remove(process)
        for file in files:
            file.seek(0)
        out, err = (file.read() for file in files)
        if process.returncode != 0:
            words = " ".join(str(word) for word in words)
            raise Failed(f"{words}\nended with {process.returncode}:\n{err[-2000:]}{out[-2000:]}")
        return Done(out, err, usage.ru_utime + usage.ru_stime, begun_unix_s, usage.ru_maxrss * 1024)

    def server(self, words, port, **how):
        """Starts a server and opens its first connection."""
        log = open(self.folder / f"server-{port}.log", "w+")
        process = self.start(words, out=log, err=log, **how)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port), 1):
                    return Server(process, port, time.time())
            except OSError:
                time.sleep(0.02)
        self.end(process)
        log.seek(0)
        raise Failed(f"{' '.join(str(word) for word in words)} does not accept connections:\n{log.read()[-2000:]}")

    def echo(self, *options):
        """Starts the built-in server on the servers' CPU."""
        port = free_port()
        words = [self.plimsoll, "echo", "--listen", f"127.0.0.1:{port}", *options]
        return self.server(words, port, cpu=self.server_cpu)

    def own_echo(self, *options, place=0):
        """Returns the `[target]` lines of the built-in server, which each run then starts itself: a server that runs already would count as
        another process. `place` distinguishes servers that are started together."""
        port = free_port(place)
        words = ["exec taskset --cpu-list", self.server_cpu, self.plimsoll, "echo --listen", f"127.0.0.1:{port}", *options]
        return f'start = "{" ".join(str(word) for word in words)}"\nurl = "http://127.0.0.1:{port}/"'

    def play(self, text, **how):
        """Plays an experiment of one trial. Accepts any verdict."""
        return self.play_together([text], **how)[0]

    def play_together(self, texts, files=None, **how):
        """Plays several experiments of one trial each at the same time, each with these files."""
        launched = []
        for text in texts:
            self.played += 1
            folder = self.folder / f"played-{self.played}"
            folder.mkdir()
            file = folder / "experiment.toml"
            file.write_text(text)
            for name, content in (files or {}).items():
                (folder / name).write_text(content)
            words = [self.plimsoll, "run", file, "--out", folder / "runs", "--accept", "--plain", "--json"]
            launched.append((folder / "runs", self.launch(words, **how)))
        trials = []
        for runs, one in launched:
            done = self.collect(one)
            (run,) = runs.iterdir()
            trials.append(Trial(run, json.loads(done.out), done.cpu_s))
        return trials


def free_port(place=0):
    """Returns a free port outside of the kernel's range for outgoing connections, where a client could be connected to itself. Tries the
    given port and those after it."""
    for port in PORTS:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            if place == 0:
                return port
            place -= 1
    raise Failed(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def tool(name):
    """Returns the path of a peer that scripts/need.sh or the system installed, or None."""
    path = f"{TOOLS}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return shutil.which(name, path=path)


def arguments(about, seconds, turns=None, more=None):
    """Reads the options of all benches, and those that `more` adds. `quick` is set if the bench measures less than for the page."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seconds", type=float, default=seconds, help="length of each measurement")
    if turns:
        parser.add_argument("--turns", type=int, default=turns, help="number of turns of each, interleaved")
    parser.add_argument("--plimsoll", type=pathlib.Path, help="binary to measure instead of a release build")
    if more:
        more(parser)
    given = parser.parse_args()
    given.quick = given.seconds < seconds or (turns is not None and given.turns < turns)
    if given.plimsoll is None:
        build = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "plimsoll", "--features", "scripts"]
        if subprocess.run(build, cwd=ROOT).returncode != 0:
            sys.exit(1)
        given.plimsoll = ROOT / "target/release/plimsoll"
    given.plimsoll = given.plimsoll.resolve()
    return given


def bench(measure, given):
    """Runs a bench on its own stage. Prints failures, and leaves no files or processes."""
    try:
        with Stage(given.plimsoll) as stage:
            measure(stage, given)
    except Failed as failed:
        sys.exit(str(failed))
    except KeyboardInterrupt:
        sys.exit(130)
