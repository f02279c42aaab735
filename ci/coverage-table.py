#!/usr/bin/env python3
"""Holds the table of docs/coverage.md against a report of `cargo llvm-cov --lcov`, or writes its numbers anew.

usage: coverage-table.py REPORT [--write | --lines]

A file may have a few lines more that no test runs than the table says: what threads do is not the same each time. More than that, a
file that is not in the table, one that is gone, and one without a reason are errors. With --write reasons stay, and a new file gets
`?` for one, which is none.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/coverage.md"
HEAD = ["| file | lines | not run | what is not run, and why |", "|---|---|---|---|"]
SLACK = 5
LEAST = 95.0


def measured(report):
    """By file: how many lines there are, and which are not run. A line is run if it is in one of a function's instances."""
    files = {}
    for record in pathlib.Path(report).read_text().splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            lines = files.setdefault(str(pathlib.Path(value).relative_to(ROOT)), {})
        elif kind == "DA":
            line, count = value.split(",")[:2]
            lines[int(line)] = lines.get(int(line), 0) + int(count)
    return {name: (len(lines), [line for line in sorted(lines) if not lines[line]]) for name, lines in files.items()}


def main():
    files = measured(sys.argv[1])
    if "--lines" in sys.argv[2:]:
        for name, (_, left) in sorted(files.items()):
            if left:
                print(f"{name}: {', '.join(map(str, left))}")
        return
    files = {name: (count, len(left)) for name, (count, left) in files.items()}
    page = PAGE.read_text().splitlines()
    start = page.index(HEAD[0]) + len(HEAD)
    end = next(i for i in range(start, len(page) + 1) if i == len(page) or not page[i].startswith("|"))
    listed = {}
    for row in page[start:end]:
        name, _, missed, why = [cell.strip() for cell in row.strip("|").split("|", 3)]
        listed[name.strip("`")] = (missed, why)

    lines, missed = (sum(column) for column in zip(*files.values()))
    percent = 100 * (lines - missed) / lines
    total = f"| all | {lines} | {missed} | {percent:.1f} % of the lines run |"
    if "--write" in sys.argv[2:]:
        rows = []
        for name, (count, left) in sorted(files.items()):
            why = listed.get(name, ("", "?"))[1] if left else ""
            rows.append(f"| `{name}` | {count} | {left} | {why or ('?' if left else '')} |")
        PAGE.write_text("\n".join(page[:start] + rows + [total] + page[end:]) + "\n")
        return

    wrong = []
    listed.pop("all", None)
    for name, (count, left) in sorted(files.items()):
        said, why = listed.pop(name, (None, None))
        if said is None:
            wrong.append(f"{name} is not in the table")
        elif left > int(said) + SLACK:
            wrong.append(f"{name}: {left} of {count} lines are not run, {said} are accounted for")
        elif int(said) and why in ("", "?"):
            wrong.append(f"{name}: the table does not say why {said} lines are not run")
    wrong += [f"{name} is in the table, and is not there" for name in listed]
    if percent < LEAST:
        wrong.append(f"{percent:.2f} % of the lines are run, and {LEAST} % should be")
    print(f"{percent:.2f} % of {lines} lines run, {missed} do not: docs/coverage.md says why")
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        sys.exit("docs/coverage.md: add the test that is missing, or the reason: ci/coverage.sh --write writes the numbers")


main()
