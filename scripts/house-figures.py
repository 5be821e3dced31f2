#!/usr/bin/env python3
"""Figures of the code base, beside those of an earlier revision: house-figures.py [REVISION].

Counts Rust below crates/*/src and xtask/src without tests (tests.rs, testing.rs, tests/, testing/, inline `mod tests`).
Prints a Markdown table: source lines, files, the largest circle of files that import each other, doc comments that open
with a word that `cargo xtask tidy` does not allow, closures bound to names, functions of more than 70 lines, and the
methods of the type that has most of them.
"""

import collections
import re
import subprocess
import sys

OPENINGS = re.search(r"const OPENINGS: &\[&str\] = &\[(.*?)\];", open("xtask/src/rules/comments.rs").read(), re.S)
OPENING = re.compile("(" + "|".join(re.findall(r'"([^"]+)"', OPENINGS.group(1))) + r")\b")
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\[^\n]{1,8}?|[^\'\\\n])\'', re.S)


def sources(revision):
    """Yields the path and the text of each source file."""
    names = subprocess.check_output(["git", "ls-tree", "-r", "--name-only", revision], text=True).split()
    wanted = re.compile(r"(crates/[^/]+|xtask)/src/.*\.rs")
    for name in names:
        if wanted.fullmatch(name) and "/test" not in name:
            text = subprocess.check_output(["git", "show", f"{revision}:{name}"], text=True)
            yield name, without_tests(text)


def without_tests(text):
    at = re.search(r"\n#\[cfg\(test\)\]\n(?:#\[[^\n]*\n)*(?:pub(?:\([^)]*\))? )?mod tests \{", text)
    return text[: at.start() + 1] if at else text


def code_of(text):
    """Returns the text with comments and literals replaced by blanks."""
    return LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def body_end(code, start):
    """Returns the index of the brace that closes the first one from `start`, or None for a declaration without a body."""
    depth = 0
    for at in range(start, len(code)):
        if code[at] == ";" and depth == 0:
            return None
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
            if depth == 0 and code[at] == "}":
                return at
    return None


def openings(text):
    """Counts doc comments, and doc comments that begin with a forbidden word."""
    docs = odd = 0
    above = ""
    for line in text.splitlines():
        mark = next((mark for mark in ("///", "//!") if line.lstrip().startswith(mark)), "")
        words = line.lstrip()[3:].strip()
        if mark and mark != above and words:
            docs += 1
            odd += bool(OPENING.match(words))
        above = mark
    return docs, odd


def circles(files):
    """Returns the size of the largest set of files in a crate that import each other in a circle."""
    modules = {}
    for name in files:
        crate, path = name.split("/src/", 1)
        parts = tuple(part for part in path.removesuffix(".rs").split("/") if part not in ("lib", "main"))
        modules[(crate, parts)] = name
    edges = collections.defaultdict(set)
    for (crate, parts), name in modules.items():
        for origin, path in re.findall(r"\b(crate|super)::([\w:]+)", files[name]):
            base = () if origin == "crate" else parts[:-1]
            steps = base + tuple(path.split("::"))
            target = next((steps[:n] for n in range(len(steps), -1, -1) if (crate, steps[:n]) in modules), None)
            if target is not None and target != parts:
                edges[name].add(modules[(crate, target)])
    return max((len(part) for part in strong_parts(modules.values(), edges)), default=0)


def strong_parts(nodes, edges):
    """Tarjan's algorithm (1972), with a stack in place of recursion."""
    index, low, stack, on_stack, parts = {}, {}, [], set(), []
    for root in nodes:
        work = [(root, iter(edges[root]))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    parts.append(part)
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(edges[following])))
            elif following in on_stack:
                low[node] = min(low[node], index[following])
    return parts


def figures(revision):
    texts = dict(sources(revision))
    codes = {name: code_of(text) for name, text in texts.items()}
    lines = sum(text.count("\n") for text in texts.values())
    counted = [openings(text) for text in texts.values()]
    docs, odd = (sum(column) for column in zip(*counted))
    closures = sum(len(re.findall(r"\blet (?:mut )?\w+ =\s*(?:move )?\|", code)) for code in codes.values())
    long = 0
    methods = collections.Counter()
    for name, code in codes.items():
        for found in re.finditer(r"\bfn \w+", code):
            end = body_end(code, found.end())
            long += end is not None and code.count("\n", found.start(), end) >= 70
        for found in re.finditer(r"(?m)^impl(?:<[^{]*?>)? (\w+)(?:<[^{]*?>)? (?:where[^{]*)?\{", code):
            block = code[found.start() : body_end(code, found.start()) or len(code)]
            methods[(name.split("/src/")[0], found.group(1))] += len(re.findall(r"\n    (?:pub(?:\([^)]*\))? )?(?:const )?fn \w+", block))
    (crate, largest), count = methods.most_common(1)[0]
    return {
        "source lines": f"{lines:,}",
        "files": str(len(texts)),
        "largest import circle, files": str(circles(codes)),
        "doc comments with a forbidden opening": f"{odd} of {docs:,} ({100 * odd / docs:.1f} %)",
        "closures bound to names, per 1,000 lines": f"{1000 * closures / lines:.1f}",
        "functions of more than 70 lines": str(long),
        "methods of the largest type": f"{count} (`{crate.removeprefix('crates/')}::{largest}`)",
    }


def main():
    if len(sys.argv) > 2 or "--help" in sys.argv:
        sys.exit(__doc__)
    before = figures(sys.argv[1]) if len(sys.argv) == 2 else {}
    now = figures("HEAD")
    print("| | " + ("before | " if before else "") + "now |\n|---|" + "---|" * (2 if before else 1))
    for name, value in now.items():
        print(f"| {name} | " + (f"{before[name]} | " if before else "") + f"{value} |")


main()
