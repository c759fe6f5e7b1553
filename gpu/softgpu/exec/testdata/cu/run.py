#!/usr/bin/env python3
"""Runs every kernel of a PTX file (see kernels.cu for their signature) on the
first NVIDIA GPU and prints a line with its output for each.

Usage: run.py kernels.ptx > expected.txt
"""
import ctypes
import datetime
import re
import sys

cuda = ctypes.CDLL("libcuda.so.1")
WORDS = 4096


def check(code, what):
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode()}")


def inputs():
    """The words that the tests use too: a linear congruential generator."""
    x, words = 12345, []
    for _ in range(WORDS):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(x >> 32)
    return words


def main():
    ptx = open(sys.argv[1], "rb").read()
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    name, version = ctypes.create_string_buffer(100), ctypes.c_int()
    cuda.cuDeviceGetName(name, 100, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    print(f"# {name.value.decode()}, CUDA {version.value // 1000}.{version.value % 1000 // 10}, {datetime.date.today()}")
    check(cuda.cuModuleLoadData(ctypes.byref(module), ptx + b"\0"), "cuModuleLoadData")
    din, dout, n = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int(WORDS)
    check(cuda.cuMemAlloc_v2(ctypes.byref(din), 4 * WORDS), "cuMemAlloc")
    check(cuda.cuMemAlloc_v2(ctypes.byref(dout), 4 * WORDS), "cuMemAlloc")
    data = (ctypes.c_uint32 * WORDS)(*inputs())
    check(cuda.cuMemcpyHtoD_v2(din, data, 4 * WORDS), "copy")
    for kernel in re.findall(rb"\.entry\s+(\w+)\s*\(", ptx):
        function = ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, kernel), "cuModuleGetFunction")
        check(cuda.cuMemsetD32_v2(dout, 0, WORDS), "memset")
        args = (ctypes.c_void_p * 3)(ctypes.addressof(din), ctypes.addressof(dout), ctypes.addressof(n))
        check(cuda.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 512, None, args, None), "launch")
        check(cuda.cuCtxSynchronize(), kernel.decode())
        out = (ctypes.c_uint32 * WORDS)()
        check(cuda.cuMemcpyDtoH_v2(out, dout, 4 * WORDS), "copy")
        words = list(out)
        while words and words[-1] == 0:
            words.pop()
        print(kernel.decode(), "=>", " ".join(f"{x:x}" for x in words))


main()
