"""The other load generators: their command lines for the same load, and their results. A peer that
is not installed is left out. This module must not judge."""

import dataclasses
import json
import re
import subprocess

from bench_page import said
from bench_stage import Failed, tool

# wrk's own report ends at p99.
SAYS = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("SAYS %d %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency:percentile(99.9), latency.mean,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclasses.dataclass
class Said:
    """The figures that a generator reports for a load, and the CPU time that it used."""

    requests: int
    requests_per_s: float
    # p50, p90, p99, p999 and mean, microseconds; None for a figure that the generator does not
    # report.
    latency_us: dict
    failed: int
    # User and system time of the whole process, seconds.
    cpu_s: float
    begun_unix_s: float


def wrk(stage, url, connections, seconds, program="wrk", rate=None):
    """Runs wrk as a closed loop, or wrk2 with a rate."""
    script = stage.folder / "says.lua"
    script.write_text(SAYS)
    # It takes only whole seconds.
    words = [tool(program), "--threads", 1, "--connections", connections, "--duration", f"{max(1, round(seconds))}s"]
    words += ["--script", script] + (["--rate", rate] if rate else []) + [url]
    done = stage.finish(words, cpu=stage.generator_cpu)
    found = re.search(r"^SAYS (.*)$", done.out, re.MULTILINE)
    if not found:
        raise Failed(f"the output of {program} cannot be parsed:\n{done.out}")
    requests, length_us, p50, p90, p99, p999, mean, failed = map(int, found[1].split())
    latency_us = {"p50": p50, "p90": p90, "p99": p99, "p999": p999, "mean": mean}
    return Said(requests, requests / (length_us / 1e6), latency_us, failed, done.cpu_s, done.begun_unix_s)


def oha(stage, url, connections, seconds, rate=None, corrected=False):
    """Runs oha as a closed loop, or with `rate`, which is for all connections together."""
    program = tool("oha")
    helps = stage.finish([program, "--help"]).out
    words = [program, "--no-tui", "-z", f"{round(seconds * 1000)}ms", "-c", connections]
    words += ["--output-format", "json"] if "--output-format" in helps else ["--json"]
    if rate:
        words += ["-q", f"{rate:g}"] + (["--latency-correction"] if corrected else [])
    done = stage.finish([*words, url], cpu=stage.generator_cpu)
    results = json.loads(done.out)
    codes = results["statusCodeDistribution"]
    percentiles = results["latencyPercentiles"]
    names = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}
    latency_us = {ours: micro(percentiles.get(theirs)) for ours, theirs in names.items()}
    latency_us["mean"] = micro(results["summary"].get("average"))
    # Requests that were open at the end are not failures of the server.
    errors = {why: count for why, count in results["errorDistribution"].items() if "deadline" not in why}
    failed = sum(errors.values()) + sum(count for code, count in codes.items() if not code.startswith("2"))
    requests = sum(codes.values())
    return Said(requests, requests / results["summary"]["total"], latency_us, failed, done.cpu_s, done.begun_unix_s)


def hey(stage, url, connections, seconds, rate=None):
    """Runs hey as a closed loop, or with `rate`, of which each connection has its own share."""
    words = [tool("hey"), "-z", f"{seconds:g}s", "-c", connections, "-cpus", 1]
    if rate:
        words += ["-q", f"{rate / connections:g}"]
    done = stage.finish([*words, url], cpu=stage.generator_cpu)
    figure = lambda pattern: next(iter(re.findall(pattern, done.out, re.MULTILINE)), None)
    total, per_s = figure(r"^\s*Total:\s+([\d.]+) secs"), figure(r"^\s*Requests/sec:\s+([\d.]+)")
    if total is None or per_s is None:
        raise Failed(f"the output of hey cannot be parsed:\n{done.out}")
    latency_us = {
        name: micro(figure(rf"^\s*{of}%%? in ([\d.]+) secs")) for name, of in [("p50", 50), ("p90", 90), ("p99", 99)]
    }
    latency_us["p999"] = None
    latency_us["mean"] = micro(figure(r"^\s*Average:\s+([\d.]+) secs"))
    codes = re.findall(r"^\s*\[(\d+)\]\s+(\d+) responses", done.out, re.MULTILINE)
    errors = re.findall(r"^\s*\[(\d+)\]\s+(?!\d+ responses)\S", done.out, re.MULTILINE)
    failed = sum(int(count) for code, count in codes if not code.startswith("2")) + sum(map(int, errors))
    requests = sum(int(count) for _, count in codes)
    return Said(requests, float(per_s), latency_us, failed, done.cpu_s, done.begun_unix_s)


def micro(seconds):
    return None if seconds is None else float(seconds) * 1e6


PEERS = {"wrk": wrk, "oha": oha, "hey": hey}


def there():
    """Returns the installed peers, by name."""
    return {name: ask for name, ask in PEERS.items() if tool(name)}


def versions():
    """Returns the versions that the installed peers report."""
    words = {"wrk": ["wrk", "--version"], "wrk2": ["wrk2", "--version"], "oha": ["oha", "--version"], "nginx": ["nginx", "-v"]}
    found = {name: said([tool(of), option]).split(" Copyright")[0] for name, (of, option) in words.items() if tool(of)}
    if tool("hey"):
        # hey does not report its version, but Go reports the versions of programs that it built.
        lines = said_all(["go", "version", "-m", tool("hey")]) + said_all(["dpkg-query", "-W", "hey"])
        found["hey"] = next((" ".join(line.split()[1:3]) for line in lines if line.split()[:1] in (["mod"], ["hey"])), "?")
    return "; ".join(f"{name}: {version}" for name, version in sorted(found.items())) + "."


def said_all(words):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
