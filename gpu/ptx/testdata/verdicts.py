#!/usr/bin/env python3
"""Records what ptxas says about the snippets of verdicts.txt.

Usage: verdicts.py verdicts.txt > verdicts.out
Each line of the output is "name ok" or "name refused: message".
"""
import concurrent.futures, os, re, subprocess, sys, tempfile

BODY = """.version 8.5
.target sm_90a
.address_size 64
%s
.visible .entry kernel(.param .u64 prm, .param .u32 prm32)
{
.reg .pred p, q; .reg .b16 h, h2; .reg .u16 u, u2; .reg .b32 r, r2, r3, r4; .reg .u32 w; .reg .f32 f, f2, f3;
.reg .b64 d, d2, d3; .reg .u64 e; .reg .f64 g, g2, g3; .reg .f16 hf, hf2, hf3; .reg .b8 tiny;
.shared .b32 sh[64]; .local .b32 lo[8]; .param .b32 pp[8];
L0:
%s
ret;
}
"""


def verdict(line):
    name, decls, body = (x.strip() for x in line.split("|", 2))
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "a.ptx")
        with open(path, "w") as f:
            f.write(BODY % (decls, body))
        r = subprocess.run(["ptxas", "-arch=sm_90a", "-c", "-o", os.path.join(d, "a.o"), path],
                           capture_output=True, text=True)
    if r.returncode == 0:
        return f"{name} ok"
    text = (r.stderr + r.stdout).strip().splitlines()
    first = next((x for x in text if "error" in x or "fatal" in x), text[0] if text else "?")
    return f"{name} refused: " + re.sub(r"^ptxas \S+, (line \d+);", r"\1;", first)


lines = [l.strip() for l in open(sys.argv[1]) if l.strip() and not l.startswith("#")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for v in pool.map(verdict, lines):
        print(v)
