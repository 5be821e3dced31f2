#!/usr/bin/env python3
# Compares the totals of a run's load.hlog, as an independent reader gets them, with its
# analysis.json.
# usage: check_hlog.py RUN_FOLDER

import collections
import json
import math
import pathlib
import re
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

# Upper bound of times in a trial: nanoseconds of a day.
DAY_NS = 86_400 * 10**9


def intervals(path):
    """Counts the lines of the log that have a histogram, by the base64 payload (HISTF…)."""
    return sum("HISTF" in line for line in path.read_text().splitlines())


def start_unix_s(path):
    """Returns the time from which the intervals count."""
    return float(re.search(r"StartTime: ([0-9.]+)", path.read_text()).group(1))


def totals(path, measured_from_s):
    """Returns the count of each tag over all intervals, the same for intervals in the measured part, and the number of intervals read."""
    counts, measured = collections.Counter(), collections.Counter()
    read = 0
    zero_s = start_unix_s(path)
    reader = HistogramLogReader(str(path), HdrHistogram(1, DAY_NS, 3))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        counts[histogram.get_tag()] += histogram.get_total_count()
        # Starts are written to the millisecond.
        if round(histogram.get_start_time_stamp() / 1000 - zero_s, 2) >= measured_from_s:
            measured[histogram.get_tag()] += histogram.get_total_count()
        read += 1
    reader.close()
    # If no operation ended in the measured part, times cover the whole load.
    ended = any(count for tag, count in measured.items() if tag.endswith("/latency"))
    return counts, measured if ended else counts, read


def measured_from_s(trial):
    """Returns the whole second at which the measured part begins; see `LoadWindow::latency_from_s`."""
    if trial["steady"] is None:
        return 0
    from_s, until_s = trial["measured_s"] or [trial["steady"]["from_s"]] * 2
    whole = math.ceil(from_s - 1e-6)
    return whole if until_s - whole >= 1 - 1e-6 else math.floor(from_s)


def count_of(quantiles):
    """Returns the number of values behind the quantiles."""
    return (quantiles or {"count": 0})["count"]


def differences(folder, trial):
    """Describes all differences."""
    log = folder / "trials" / trial["id"] / "load.hlog"
    counts, measured, read = totals(log, measured_from_s(trial))
    if read == 0 or read != intervals(log):
        yield f"{log}: {read} of {intervals(log)} intervals could be read"
    expected, expected_measured = {}, {}
    for name, operation in trial["operations"].items():
        for outcome, count in operation["outcomes"].items():
            expected[f"{name}/{outcome}/latency"] = count
        for time in ("latency", "service"):
            expected_measured[f"{name}/ok/{time}"] = count_of(operation[f"{time}_us"])
    latencies = {tag for tag in counts if tag.endswith("/latency")}
    for tag in sorted(expected.keys() | latencies):
        if counts[tag] != expected.get(tag, 0):
            yield f"{tag}: {counts[tag]} in load.hlog, {expected.get(tag, 0)} in analysis.json"
    for tag, count in sorted(expected_measured.items()):
        if measured[tag] != count:
            yield f"{tag} after the warm-up: {measured[tag]} in load.hlog, {count} in analysis.json"
    for outcome, count in trial["outcomes"].items():
        in_log = sum(counts[tag] for tag in latencies if tag.split("/")[1] == outcome)
        if in_log != count:
            yield f"{outcome}: {in_log} in load.hlog, {count} in analysis.json"
    for time in ("latency", "service"):
        ok = [tag for tag in counts if tag.endswith(f"/ok/{time}")]
        pairs = [(counts, trial["with_warmup"], "in all"), (measured, trial, "after the warm-up")]
        for where, figures, words in pairs:
            in_log, count = sum(where[tag] for tag in ok), count_of(figures[f"{time}_us"])
            if in_log != count:
                yield f"{time} {words}: {in_log} in load.hlog, {count} in analysis.json"


def main():
    folder = pathlib.Path(sys.argv[1])
    results = json.loads((folder / "analysis.json").read_text())
    wrong = [line for trial in results["trials"] for line in differences(folder, trial)]
    operations = sum(sum(trial["outcomes"].values()) for trial in results["trials"])
    if not results["trials"] or operations == 0:
        wrong.append("no operations: nothing was checked")
    for line in wrong:
        print(line)
    verdict = "FAILED" if wrong else "ok"
    print(f"check_hlog {verdict}: {results['title']}: {operations} operations in load.hlog and in analysis.json")
    sys.exit(bool(wrong))


main()
