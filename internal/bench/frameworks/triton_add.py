"""Kernels in Triton, for torch_bench.py."""
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def dot_kernel(a, b, out, n: tl.constexpr):
    row, column = tl.arange(0, n)[:, None], tl.arange(0, n)[None, :]
    product = tl.dot(tl.load(a + row * n + column), tl.load(b + row * n + column), input_precision="tf32")
    tl.store(out + row * n + column, product)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), block=1024)
    return out


def dot(a, b):
    out = torch.empty_like(a)
    dot_kernel[(1,)](a, b, out, n=a.shape[0])
    return out
