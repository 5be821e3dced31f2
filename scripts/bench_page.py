"""Pages of measured results: a section for each measurement, which the next measurement of the kind
replaces, and the machine of the measurement."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

from bench_stage import ROOT

MACHINE = "The machine"


@dataclasses.dataclass
class Page:
    """A page: its introduction and its sections in order. In the introduction, `{counts}` is the number of goals met."""

    path: pathlib.Path
    sections: list
    introduction: str

    def read(self):
        """Returns the sections of the page by title."""
        text = self.path.read_text() if self.path.exists() else ""
        found = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
        return {title: body.strip() for title, body in zip(found[::2], found[1::2]) if title in self.sections}

    def write(self, title, body):
        """Puts a section in its place, and the machine at the end."""
        bodies = {**self.read(), title: body, MACHINE: "\n".join(machine())}
        parts = [f"## {name}\n\n{bodies[name].strip()}\n" for name in [*self.sections, MACHINE] if name in bodies]
        self.path.write_text("\n".join([self.introduction.format(counts=counts(bodies.values())), *parts]))


RESULTS = Page(
    ROOT / "bench/RESULTS.md",
    ["Speed", "HTTP/2", "gRPC", "Checked histories", "Truth", "Scale", "A generator that is too slow", "The name service", "Search", "Prices"],
    """# Results of `make bench`

{counts} Each section is written by a script of its own (`scripts/bench-*.py`) and says when.
What [the lab's hosts get](LAB.md), [how far the answers can be trusted](TRUST.md) and [what attacks come to](RELIABILITY.md) have
pages of their own.
""",
)
TRUST = Page(
    ROOT / "bench/TRUST.md",
    [
        "Known truths",
        "Coverage and error rates",
        "Servers in another language",
        "Beside other load",
        "Open loops",
        "Pairs",
        "Pairs beside something that comes and goes",
        "Searches on five servers",
    ],
    """# Whether the answers can be trusted, measured

{counts} `scripts/bench-trust.py` or `scripts/bench-beside.py` writes each section, with its date. *Known truths* is the table of
`plimsoll selfcheck --long`, and *Coverage and error rates* that of `plimsoll selfcheck --statistics --long` ([docs/selfcheck.md](../docs/selfcheck.md)).
""",
)
# End of a verdict line.
VERDICTS = {"met": r"\*\*met\*\*", "not met": r"\*\*not met", "not measured": r"\*\*not measured"}


def machine():
    """Describes this machine."""
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
    """Returns the date and the measured version. Sections are measured separately."""
    commit = said(["git", "rev-parse", "--short", "HEAD"])
    return f"Measured on {time.strftime('%F', time.gmtime())}, {said([plimsoll, '--version'])} ({commit})."


def counts(bodies):
    """Returns how many goals are met in all sections."""
    of = {verdict: sum(len(re.findall(pattern, body)) for body in bodies) for verdict, pattern in VERDICTS.items()}
    return f"Wanted figures: {', '.join(f'{count} {verdict}' for verdict, count in of.items())}."


def said(words):
    """Returns the first line of a program's output."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return "none"
    return ((done.stdout + done.stderr).strip().splitlines() or ["?"])[0]


def table(heads, rows):
    """Returns a Markdown table. The first column is text, the others are numbers."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]


def shown(cell):
    """Formats a cell. A missing measurement is a dash, never 0."""
    if cell is None:
        return "–"
    if not isinstance(cell, float):
        return str(cell)
    digits = 0 if abs(cell) >= 100 else 1 if abs(cell) >= 10 else 2 if abs(cell) >= 0.1 else 4
    return f"{cell:.{digits}f}"


def write(title, lines, given, page=RESULTS):
    """Puts a section on its page, or only prints it for a quick run."""
    body = "\n".join([*lines, "", measured(given.plimsoll)])
    print(f"## {title}\n\n{body}\n", flush=True)
    if given.quick:
        print(f"quick run: {page.path.name} is not changed", file=sys.stderr)
        return
    page.write(title, body)
