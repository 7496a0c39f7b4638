#!/usr/bin/env python3
"""Random Trace Event JSON, written in many of the ways that tools write it, and what a reader must compute from it.

    gen_json.py TOOL [ROUNDS [SEED]]     TOOL: trace2summary

Each round makes random spans on random tracks, computes the rows on its own (integers and fractions.Fraction), writes the
events with random spelling (decimals, exponents, strings, escapes, order, X or B/E, gzip, cut ...) and compares.
SPDX-License-Identifier: MIT"""
import gzip, json, os, random, shutil, subprocess, sys, tempfile
from fractions import Fraction
from math import floor

def half_up(f):
    return floor(f + Fraction(1, 2))

class Written:
    """A time in microseconds as some tool would spell it, and the nanoseconds it means."""
    def __init__(self, r, ns):
        style = r.randrange(9)
        text = "%d.%03d" % (ns // 1000, ns % 1000)
        if style == 0: text = text.rstrip("0").rstrip(".")
        elif style == 1: text = "%d%03de-3" % (ns // 1000, ns % 1000) if ns >= 1000 else text
        elif style == 2: text = '"%s"' % text
        elif style == 3: text = text + "".join(r.choice("0123456789") for _ in range(r.randrange(1, 30)))
        elif style == 4 and ns: text = "0.%018dE+15" % ns if ns < 10**18 else text
        self.text = text
        self.ns = half_up(Fraction(text.strip('"')) * 1000)

NAMES = ["load", "model.forward", "a\"b\\c", "x\ty", "\u00e4\u20ac\U0001f600", "", "operator\"\"_x", "n" * 70, "{}[]", "\u2028", "B"]

def spell(r, s):
    style = r.randrange(4)
    if style == 0: return json.dumps(s)
    if style == 1: return json.dumps(s, ensure_ascii=False)
    units = s.encode("utf-16-be")
    units = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    if style == 2: return '"' + "".join("\\u%04X" % u for u in units) + '"'
    return '"' + "".join(chr(u) if 0x20 <= u < 0xd800 and chr(u) not in '"\\' and r.random() < 0.5 else "\\u%04x" % u for u in units) + '"'

def track_spans(r, n):
    """Spans that nest or, on some tracks, cross."""
    spans, now = [], r.randrange(10**6)
    wild = r.random() < 0.3
    def tree(lo, hi, depth):
        while lo < hi and len(spans) < n:
            a = r.randint(lo, hi)
            b = r.randint(a, hi)
            if wild and r.random() < 0.2: b += r.randrange(1000)
            spans.append((a, b))
            if depth < 6 and r.random() < 0.6: tree(a, b, depth + 1)
            lo = b + r.randrange(3)
    tree(now, now + r.choice([50, 10**4, 10**9]), 0)
    return spans

def rows_of(events):
    """events: (track, order, start, dur, key, extra). Every moment of a track belongs to the span that began last."""
    rows = {}
    by_track = {}
    for e in events: by_track.setdefault(e[0], []).append(e)
    for list_ in by_track.values():
        list_.sort(key=lambda e: (e[2], -e[3], e[1]))
        own = [0] * len(list_)
        times = sorted({t for e in list_ for t in (e[2], e[2] + e[3])})
        for a, b in zip(times, times[1:]):
            there = [i for i, e in enumerate(list_) if e[2] <= a and b <= e[2] + e[3]]
            if there: own[there[-1]] += b - a
        for e, self_ns in zip(list_, own):
            row = rows.setdefault(e[4], [0, 0, 0, [], 0, 0, 0, 0])
            row[0] += 1; row[1] += self_ns; row[2] += e[3]; row[3].append(e[3])
            x = e[5]
            row[4] += x.get("alloc_bytes", 0); row[5] += x.get("alloc_delta_bytes", 0)
            row[6] = max(row[6], x.get("alloc_live_bytes", 0), x.get("alloc_peak_bytes", 0)); row[7] += 1 if x.get("hook_error") else 0
    return rows

def make(r):
    events, texts = [], []
    order = 0
    for track in range(r.randrange(1, 5)):
        pid = r.choice([1, 1234, "1234", "Spans", 7])
        tid = track + 10 if r.random() < 0.7 else "stream %d" % track
        pair = r.random() < 0.4   # this track as B/E: only spans that nest, told by a walk
        made = []
        for a, b in track_spans(r, r.choice([0, 3, 40])):
            start, dur = Written(r, a), Written(r, b - a)
            made.append((start, dur))
        if not pair: # these are shuffled: of twins it would be open which is the parent
            made = list({(s.ns, d.ns): (s, d) for s, d in made}.values())
        texts_track = []
        def common(ph, name, cat):
            fields = ['"ph":"%s"' % ph, '"pid":%s' % json.dumps(pid), '"tid":%s' % json.dumps(tid)]
            if name is not None: fields.append('"name":' + spell(r, name))
            if cat: fields.append('"cat":"%s"' % cat)
            return fields
        stack, walk = [], []
        if pair:
            sized = sorted(((s.ns, s.ns + d.ns) for s, d in made), key=lambda x: (x[0], -x[1]))
            kept = []
            for a, b in sized:   # drop what crosses or is empty, so that order at equal times is forced
                while stack and stack[-1] <= a: stack.pop()
                if b == a or (stack and b > stack[-1]): continue
                stack.append(b); kept.append((a, b))
            made = kept
        for m in made:
            name, cat = r.choice(NAMES), r.choice(["", "lean", "cpu_op", "lean,x"])
            meta = {}
            if r.random() < 0.3:
                meta = {"phase": r.choice([None, "forward"]), "device": r.choice([None, "cuda"]), "alloc_bytes": r.choice([None, 5]),
                        "alloc_delta_bytes": r.choice([None, -3]), "alloc_peak_bytes": r.choice([None, 9, 11]), "hook_error": r.choice([None, "bad"])}
            args = None
            if meta:
                args = json.dumps({"x": [1, {"y": "}]"}], "metadata": meta})
            elif r.random() < 0.4:
                args = r.choice(['{}', '{"a":NaN,"b":[Infinity,-Infinity]}', '{"q":"\\"}{"}', '{"deep":' + "[" * 200 + "]" * 200 + '}'])
            key = (name, meta.get("phase"), None, None, None, meta.get("device"), None)
            if not meta and cat == "cpu_op": key = (name, None, "cpu_op", None, None, None, None)
            extra = {k: v for k, v in meta.items() if v is not None}
            track_id = (json.dumps(pid).strip('"'), json.dumps(tid))
            if pair:
                a, b = m
                events.append((track_id, order, a, b - a, key, extra)); order += 1
                f = common("B", name, cat) + ['"ts":%d.%03d' % (a // 1000, a % 1000)] + (['"args":' + args] if args else [])
                walk.append((a, 1, -(b - a), order, f))
                f = common("E", name if r.random() < 0.5 else None, "") + ['"ts":%d.%03d' % (b // 1000, b % 1000)]
                walk.append((b, 0, -a, -order, f))
            else:
                start, dur = m
                events.append((track_id, order, start.ns, dur.ns, key, extra)); order += 1
                f = common("X", name, cat) + ['"ts":' + start.text, '"dur":' + dur.text] + (['"args":' + args] if args else [])
                if r.random() < 0.1: f.insert(0, '"name":"first of two"')
                else: r.shuffle(f)
                texts_track.append(f)
        walk.sort(key=lambda w: w[:4])
        texts_track += [w[4] for w in walk]
        texts.append((pair, texts_track))
    flat = []
    for pair, t in texts:
        if not pair: r.shuffle(t)
        flat += t
    return events, flat

def write(r, flat, path):
    space = r.choice(["", " ", "\n  ", "\t"])
    items = ["{" + space + ("," + space).join(f) + space + "}" for f in flat]
    for extra in ['{"ph":"M","pid":1,"name":"process_name","args":{"name":"p"}}', '{"ph":"C","pid":1,"ts":1,"name":"c","args":{"v":1}}',
                  '{"ph":"i","pid":1,"tid":1,"ts":5,"name":"i","s":"g"}', '{}']:
        if r.random() < 0.5: items.insert(r.choice([0, len(items)]) if flat else 0, extra)
    body = r.choice([",", ",\n", " , "]).join(items)
    if items and r.random() < 0.3: body += ",\n"
    kind = r.randrange(4)
    if kind == 0: text = "[" + body + "]"
    elif kind == 1: text = "[" + body
    elif kind == 2: text = '{"displayTimeUnit":"ns","otherData":{"a":[{"traceEvents":[1]}]},"traceEvents":[' + body + '],"x":"y]}"}'
    else: text = '{"schemaVersion":1,"big":"' + "z" * r.choice([10, 300000]) + '","traceEvents":[' + body + "]}"
    data = text.encode("utf-8", "surrogatepass")
    if r.random() < 0.3: data = b"\xef\xbb\xbf" + data
    if r.random() < 0.3: data = gzip.compress(data[:len(data) // 2], r.randrange(1, 10)) + gzip.compress(data[len(data) // 2:])
    with open(path, "wb") as f: f.write(data)

FIELDS = ["calls", "self_ns", "total_ns", "min_ns", "max_ns", "alloc_bytes", "alloc_delta_bytes", "peak_live_bytes", "hook_errors"]

def read_tool(tool, path):
    out = subprocess.run([tool, "--no-table", "-q", "-s", "-", path], capture_output=True)
    s = json.loads(out.stdout.decode("utf-8")) if out.stdout else {"rows": []}
    got = {tuple(r["key"][k] for k in ("name", "phase", "activity", "backend", "dtype", "device", "module")): [r[f] for f in FIELDS] for r in s["rows"]}
    for r in s["rows"]:
        assert r["mean_ns"] == r["total_ns"] // r["calls"] and r["min_ns"] <= r["median_ns"] <= r["p95_ns"] <= r["p99_ns"] <= r["max_ns"], r
    return got, out.returncode, out.stderr.decode()

def main():
    tool, rounds, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    bad = spans = 0
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "t.json")
        for i in range(rounds):
            r = random.Random(seed * 100003 + i)
            events, flat = make(r)
            write(r, flat, path)
            spans += len(events)
            got, code, err = read_tool(tool, path)
            want = {k: v[:3] + [min(v[3]), max(v[3])] + v[4:] for k, v in rows_of(events).items()}
            if got != want or code:
                bad += 1
                keep = "gen_json.%d.%d.json" % (seed, i)
                shutil.copy(path, keep)
                print("round %d differs, kept as %s\n  rc %d %s" % (i, keep, code, err[-300:]))
                for k in sorted(set(got) | set(want), key=str):
                    if got.get(k) != want.get(k): print("  %s\n    expected %s\n    got      %s" % (k, want.get(k), got.get(k)))
                if bad > 3: break
    print("gen_json: %d rounds, %d spans, %d differ" % (rounds, spans, bad))
    return 1 if bad else 0

sys.exit(main())
