"""CuPy on a GPU, for `pvdrm bench frameworks`; see torch_bench.py."""
import hashlib
import json
import sys
import time

import cupy as cp
import numpy as np


def say(**fields):
    print("pvdrm:" + json.dumps(fields), flush=True)


def result(name, *values):
    digest = hashlib.sha256()
    for v in values:
        v = cp.asnumpy(v)
        digest.update(f"{v.dtype} {v.shape}".encode() + v.tobytes())
    say(result=name, digest=digest.hexdigest()[:32])


def numbers(*shape, seed=1):
    return cp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def elementwise():
    x, y = numbers(100, 37), numbers(100, 37, seed=2)
    result("CuPy elementwise", x * 2 + y, cp.sin(x), cp.where(x > y, x, y), x.sum(1), cp.cumsum(x, 1), x.argmax(1), x[x > 1])


def sorting():
    result("CuPy sort", cp.sort(numbers(50, 1000)), cp.argsort(numbers(5000)), cp.unique((numbers(5000) * 10).astype(int)))


def raw():
    kernel = cp.RawKernel(r'extern "C" __global__ void triple(float *a) { a[threadIdx.x] *= 3; }', "triple")
    x = numbers(128)
    kernel((1,), (128,), (x,))
    result("CuPy raw kernel", x)


def random():
    g = cp.random.Generator(cp.random.XORWOW(4))
    result("CuPy Generator", g.standard_normal(1000), g.integers(0, 99, 1000))
    result("CuPy random numbers", cp.random.RandomState(4).rand(1000))


def matmul():
    result("CuPy matmul", numbers(64, 128) @ numbers(128, 32, seed=2))


def fourier():
    result("CuPy FFT", cp.fft.fft(numbers(16, 256)))


def steps():
    x, values = numbers(1024), []
    for _ in range(8):
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        for _ in range(2000):
            x = x * 1.0001
        cp.cuda.Device().synchronize()
        values.append((time.perf_counter() - begin) / 2000 * 1e6)
    say(figure="CuPy small operation", unit="us", values=values[1:])


def main():
    say(versions=f"CuPy {cp.__version__}", device=cp.cuda.runtime.getDeviceProperties(0)["name"].decode())
    groups = {f.__name__: f for f in (elementwise, sorting, raw, random, matmul, fourier, steps)}
    for name in sys.argv[1:] or groups:
        try:
            groups[name]()
        except Exception as e:  # the others may work
            say(failed=name, error=f"{type(e).__name__}: {e}"[:600])


main()
