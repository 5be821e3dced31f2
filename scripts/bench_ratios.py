"""Shared code of the benchmarks that compare Plimsoll with a peer, in turns: figures of a turn, and
the rows of a ratio and its goal. This module must not know the peer."""

import statistics


def per_cpu_s(turn):
    """Requests per second of the generator's CPU, or None."""
    return turn["requests"] / turn["cpu_s"] if turn["cpu_s"] else None


def in_turns(generators, turns, *load):
    """Plays a load by all generators, in alternating order. Returns the figures of each turn, by generator."""
    names = list(generators)
    return [{of: generators[of](*load) for of in (names if number % 2 == 0 else names[::-1])} for number in range(turns)]


def quotients(turns, peer, figure):
    """Returns Plimsoll's figure over the peer's, for each turn that has both."""
    pairs = [(figure(turn["Plimsoll"]), figure(turn[peer])) for turn in turns]
    return [ours / theirs for ours, theirs in pairs if ours and theirs]


def ratio(values, wanted, is_met):
    """Returns the cells of a ratio: its median, least and greatest, the goal and the verdict."""
    if not values:
        return [None, None, wanted, "**not measured**"]
    middle = statistics.median(values)
    verdict = "**met**" if is_met(middle) else "**not met**"
    return [f"**{middle:.2f}**", f"{min(values):.2f}–{max(values):.2f}", wanted, verdict]


def middle(figures):
    """Returns the median of the figures that are known, or None."""
    known = [figure for figure in figures if figure]
    return statistics.median(known) if known else None


def details(where, turns, generators):
    """Returns a row for each generator: requests per CPU-second, p99 and failures."""
    rows = []
    for of in generators:
        mine = [turn[of] for turn in turns]
        failed = sum(turn["failed"] for turn in mine)
        rows.append([where, of, middle(map(per_cpu_s, mine)), middle(turn["p99_us"] for turn in mine), failed])
    return rows
