#!/usr/bin/env python3
"""Outputs of trace2summary through strict parsers, and against each other.

    check_outputs.py NAME=FILE...     NAME: trace, summary, csv, spans, svg, folded, compare

JSON: UTF-8, no key twice, no NaN. CSV: every line as many fields as the first. The trace: ids, times of three decimals,
slices of a thread nest. Rows that the lines of --spans add up to are those of the summary and of --csv.
SPDX-License-Identifier: MIT"""
import collections, csv, json, re, sys
import xml.etree.ElementTree

KEY = ["name", "phase", "activity", "backend", "dtype", "device", "module"]
failures = []

def check(good, what):
    if not good: failures.append(what)

def unique(pairs):
    names = [k for k, _ in pairs]
    check(len(names) == len(set(names)), "a key twice: %s" % names)
    return dict(pairs)

def load_json(path):
    with open(path, encoding="utf-8", newline="") as f: text = f.read()
    return text, json.loads(text, object_pairs_hook=unique, parse_constant=lambda c: check(False, "bare " + c))

def load_csv(path):
    with open(path, encoding="utf-8", newline="") as f: lines = list(csv.reader(f, strict=True))
    check(all(len(line) == len(lines[0]) for line in lines), path + ": lines of different length")
    return [dict(zip(lines[0], line)) for line in lines[1:]]

def check_trace(path):
    text, trace = load_json(path)
    check(text.endswith("]}"), "the trace does not end with ]}")
    check(list(trace)[0] == "displayTimeUnit" and trace["displayTimeUnit"] == "ns", "displayTimeUnit")
    check(not re.search(r"\\u[dD][89a-fA-F]", text), "surrogate escape")
    for t in re.findall(r'"(?:ts|dur)":([^,}]*)', text): check(re.fullmatch(r"\d+\.\d{3}", t), "time " + t)
    slices = collections.defaultdict(list)
    asyncs = collections.Counter()
    for e in trace["traceEvents"]:
        check(e["ph"] in "XMCibnestf", "phase " + e["ph"])
        check(isinstance(e["pid"], int) and 1 <= e["pid"] < 2**31, "pid %s" % e["pid"])
        check(isinstance(e.get("args", {}), dict), "args")
        check("cname" not in e, "cname")
        if e["ph"] == "M":
            check("ts" not in e and "cat" not in e, "M with ts or cat")
            continue
        check(isinstance(e["tid"], int) and 1 <= e["tid"] < 2**31, "tid %s" % e["tid"])
        if e["ph"] in "stfbne": check("cat" in e, e["ph"] + " without cat")
        if e["ph"] in "be": asyncs[e["pid"], e["cat"], str(e.get("id2", e.get("id")))] += 1 if e["ph"] == "b" else 0
        if e["ph"] == "X": slices[e["pid"], e["tid"]].append((round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"]))
    for track, list_ in slices.items():
        open_ = []
        for start, duration, name in sorted(list_, key=lambda s: (s[0], -s[1])):
            while open_ and open_[-1] <= start: open_.pop()
            check(not open_ or start + duration <= open_[-1], "%s crosses on %s at %d" % (name, track, start))
            if duration: open_.append(start + duration)
    return trace

def rows_of(lines):
    rows = {}
    for r in lines: rows[tuple(r[k] for k in KEY) + (r["kind"],)] = tuple(int(r[k]) for k in ("calls", "self_ns", "total_ns", "min_ns", "max_ns"))
    return rows

def main():
    files = dict(a.split("=", 1) for a in sys.argv[1:])
    rows = None
    if "trace" in files: check_trace(files["trace"])
    if "compare" in files: load_json(files["compare"])
    if "summary" in files:
        summary = load_json(files["summary"])[1]
        # A CSV does not tell an absent text from an empty one.
        flat = [dict(r, **{k: v or "" for k, v in r["key"].items()}) for r in summary["rows"]]
        rows = rows_of(flat)
        check([r["self_ns"] for r in flat] == sorted((r["self_ns"] for r in flat), reverse=True), "rows are not sorted by self")
        for r in flat:
            check(r["mean_ns"] == r["total_ns"] // r["calls"], "mean of %s" % r["name"])
            check(r["min_ns"] <= r["median_ns"] <= r["p95_ns"] <= r["p99_ns"] <= r["max_ns"], "percentiles of %s" % r["name"])
        if "event_timings" in summary:
            check(sum(t["self_ns"] for t in summary["event_timings"] if not t.get("unfinished")) <= sum(r["self_ns"] for r in flat), "event_timings")
    if "csv" in files:
        got = rows_of(load_csv(files["csv"]))
        check(rows is None or got == rows, "--csv differs from the summary: %s" % list(set(got.items()) ^ set((rows or got).items()))[:2])
    if "spans" in files:
        sums = {}
        for line in load_csv(files["spans"]):
            if line["unfinished"] != "0": continue
            key, self_, total = tuple(line[k] for k in KEY) + (line["kind"],), int(line["self_ns"]), int(line["duration_ns"])
            n, a, b, low, high = sums.get(key, (0, 0, 0, total, total))
            sums[key] = (n + 1, a + self_, b + total, min(low, total), max(high, total))
        check(rows is None or sums == rows, "--spans differs from the summary: %s" % list(set(sums.items()) ^ set((rows or sums).items()))[:2])
    if "folded" in files:
        with open(files["folded"], encoding="utf-8", newline="\n") as f:
            for line in f: check(re.fullmatch(r"[^\n]* \d+\n", line), "folded line " + line)
    if "svg" in files:
        root = xml.etree.ElementTree.parse(files["svg"]).getroot()
        check(root.tag == "{http://www.w3.org/2000/svg}svg", "svg root")
        shapes = root.findall(".//{http://www.w3.org/2000/svg}g")
        check(all(g.find("{http://www.w3.org/2000/svg}title") is not None for g in shapes), "a shape without title")
        check(len(shapes) <= 20000, "%d shapes" % len(shapes))
        for r in root.iter("{http://www.w3.org/2000/svg}rect"):
            if "x" in r.attrib: check(0 <= float(r.get("x")) <= 1200 and float(r.get("x")) + float(r.get("width")) <= 1201, "a rectangle outside")
    for f in failures[:8]: print(f)
    return 1 if failures else 0

sys.exit(main())
