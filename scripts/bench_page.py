"""bench/RESULTS.md: a section for each bench, written over by the next run of that bench, and the machine they were measured on. It must
not measure."""

import os
import re
import subprocess
import sys
import time

from bench_stage import ROOT

PAGE = ROOT / "bench/RESULTS.md"
MACHINE = "The machine"
SECTIONS = ["Speed", "Truth", "Scale", "A generator that is too slow", "The name service", "Prices", MACHINE]
INTRODUCTION = """# Results of `make bench`

{counts} Each section is written by a script of its own (`scripts/bench-*.py`) and says when.
What [the lab's hosts get](LAB.md) and [how far the answers can be trusted](TRUST.md) have pages of their own.
"""
# What a verdict line ends with.
VERDICTS = {"met": r"\*\*met\*\*", "not met": r"\*\*not met", "not measured": r"\*\*not measured"}


def machine():
    """Facts about this machine."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    kernel = os.uname()
    facts = [
        ("CPU", f"{os.cpu_count()} × {cpu}"),
        ("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"),
        ("kernel", f"{kernel.sysname} {kernel.release}"),
        ("Rust", said(["rustc", "--version"])),
    ]
    return ["| | |", "|---|---|", *[f"| {name} | {value} |" for name, value in facts]]


def measured(plimsoll):
    """When, and what: sections are measured apart from each other."""
    commit = said(["git", "rev-parse", "--short", "HEAD"])
    return f"Measured on {time.strftime('%F', time.gmtime())}, {said([plimsoll, '--version'])} ({commit})."


def counts(bodies):
    """How many of the figures that are wanted were met, in all sections."""
    of = {verdict: sum(len(re.findall(pattern, body)) for body in bodies) for verdict, pattern in VERDICTS.items()}
    return f"Wanted figures: {', '.join(f'{count} {verdict}' for verdict, count in of.items())}."


def said(words):
    """The first line that a program says."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return "none"
    return ((done.stdout + done.stderr).strip().splitlines() or ["?"])[0]


def table(heads, rows):
    """Markdown; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]


def shown(cell):
    """What was not measured is a dash and never 0."""
    if cell is None:
        return "–"
    if not isinstance(cell, float):
        return str(cell)
    digits = 0 if abs(cell) >= 100 else 1 if abs(cell) >= 10 else 2 if abs(cell) >= 0.1 else 4
    return f"{cell:.{digits}f}"


def sections():
    """What is on the page, by title."""
    text = PAGE.read_text() if PAGE.exists() else ""
    found = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {title: body.strip() for title, body in zip(found[::2], found[1::2]) if title in SECTIONS}


def write(title, lines, given):
    """Puts a section in its place, and the machine below all. Of a quick run it is only printed."""
    body = "\n".join([*lines, "", measured(given.plimsoll)])
    print(f"## {title}\n\n{body}\n", flush=True)
    if given.quick:
        print("measured for less than the page is made from: bench/RESULTS.md stays as it is", file=sys.stderr)
        return
    all_of_them = {**sections(), title: body, MACHINE: "\n".join(machine())}
    parts = [f"## {name}\n\n{all_of_them[name].strip()}\n" for name in SECTIONS if name in all_of_them]
    PAGE.write_text("\n".join([INTRODUCTION.format(counts=counts(all_of_them.values())), *parts]))
