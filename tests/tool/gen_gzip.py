#!/usr/bin/env python3
"""gen_gzip.py UNIT_PARTS [ROUNDS [SEED]]: gzip files of every kind that zlib writes, whole, cut and damaged, against zlib.
SPDX-License-Identifier: MIT"""
import os, random, subprocess, sys, tempfile, zlib

def data(r):
    n = r.choice([0, 1, 2, 7, 1000, 33000, 70000, 300000])
    kind = r.randrange(5)
    if kind == 0: return r.randbytes(n)
    if kind == 1: return bytes(r.choice(b'{"a":1,}') for _ in range(n))
    if kind == 2: return b"x" * n
    if kind == 3:
        piece = r.randbytes(r.choice([3, 300, 32768]))
        return (piece * (n // len(piece) + 1))[:n]
    out = bytearray(r.randbytes(50))
    while len(out) < n:
        a = r.randrange(len(out))
        out += out[a:a + r.randrange(1, 400)] + r.randbytes(r.randrange(3))
    return bytes(out[:n])

def member(r, d):
    c = zlib.compressobj(r.randrange(10), zlib.DEFLATED, 31, r.randrange(1, 10),
                         r.choice([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]))
    out, at = b"", 0
    while at < len(d):
        n = r.randrange(1, len(d) + 1)
        out += c.compress(d[at:at + n])
        if r.random() < 0.3: out += c.flush(r.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH]))
        at += n
    out += c.flush()
    if r.random() < 0.3: # optional header fields: extra, name, comment, header CRC
        flags = r.randrange(32) & ~1 & 0x1e
        head = bytearray(out[:10]); head[3] = flags
        if flags & 4: head += bytes([5, 0]) + b"extra"
        if flags & 8: head += b"name\0"
        if flags & 16: head += b"a comment\0"
        if flags & 2: head += (zlib.crc32(bytes(head)) & 0xffff).to_bytes(2, "little")
        out = bytes(head) + out[10:]
    return out

def zlib_prefix(packed):
    """What zlib makes of the first member, without checking its end."""
    d = zlib.decompressobj(31); out = b""
    try:
        for i in range(0, len(packed), 64): out += d.decompress(packed[i:i + 64])
    except zlib.error: pass
    return out

def main():
    program, rounds, r = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200, random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    bad = runs = 0
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "g.gz")
        def run(packed):
            with open(path, "wb") as f: f.write(packed)
            return subprocess.run([program, "gunzip", path], capture_output=True)
        for i in range(rounds):
            ds = [data(r) for _ in range(r.choice([1, 1, 1, 2, 3]))]
            packed = [member(r, d) for d in ds]
            whole, plain = b"".join(packed), b"".join(ds)
            got = run(whole); runs += 1
            if got.returncode or got.stdout != plain:
                bad += 1; print("round %d: whole: rc %d, %d bytes of %d, %s" % (i, got.returncode, len(got.stdout), len(plain), got.stderr))
            for _ in range(3):
                cut = r.randrange(len(whole)) if len(whole) > 1 else 0
                got = run(whole[:cut]); runs += 1
                ends = [sum(map(len, packed[:k])) for k in range(1, len(packed) + 1)]
                good = plain.startswith(got.stdout) and (got.returncode == 1) == (cut not in ends)
                if good and cut < len(packed[0]): good = len(got.stdout) >= len(zlib_prefix(packed[0][:cut])) - 300
                if good and got.returncode: good = int(got.stderr.split()[0]) <= cut
                if not good: bad += 1; print("round %d: cut at %d of %d: rc %d, %d bytes, %s" % (i, cut, len(whole), got.returncode, len(got.stdout), got.stderr))
                flipped = bytearray(whole); at = r.randrange(len(flipped)); flipped[at] ^= 1 << r.randrange(8)
                got = run(bytes(flipped)); runs += 1
                if got.returncode not in (0, 1) or (got.returncode == 0 and got.stdout != plain and at > 10):
                    bad += 1; print("round %d: bit of byte %d: rc %d" % (i, at, got.returncode))
    print("gen_gzip: %d runs, %d wrong" % (runs, bad))
    return 1 if bad else 0

sys.exit(main())
