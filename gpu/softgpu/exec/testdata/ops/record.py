#!/usr/bin/env python3
"""Runs the instructions that `go test -run TestOps -args -export-ops ops.json`
exported on the first NVIDIA GPU and prints expected.txt.

Usage: record.py ops.json > expected.txt
Instructions that the driver refuses are named on standard error.
"""
import ctypes
import datetime
import json
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {text.value.decode()}")


def main():
    ops = json.load(open(sys.argv[1]))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    name, version = ctypes.create_string_buffer(100), ctypes.c_int()
    cuda.cuDeviceGetName(name, 100, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    print(f"# {name.value.decode()}, CUDA {version.value // 1000}.{version.value % 1000 // 10}, {datetime.date.today()}")
    din, dout = ctypes.c_uint64(), ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(din), 1 << 16), "cuMemAlloc")
    check(cuda.cuMemAlloc_v2(ctypes.byref(dout), 1 << 16), "cuMemAlloc")
    for op in ops:
        lanes = len(op["In"]) // 4
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        keys = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        vals = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(8192))
        if cuda.cuModuleLoadDataEx(ctypes.byref(module), op["PTX"].encode() + b"\0", 2, keys, vals) != 0:
            print(f"refused: {op['Key']}: {log.value.decode().strip()[:300]}", file=sys.stderr)
            continue
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"op"), "cuModuleGetFunction")
        data = (ctypes.c_uint64 * len(op["In"]))(*op["In"])
        check(cuda.cuMemcpyHtoD_v2(din, data, ctypes.sizeof(data)), "copy")
        args = (ctypes.c_void_p * 2)(ctypes.addressof(din), ctypes.addressof(dout))
        check(cuda.cuLaunchKernel(function, 1, 1, 1, lanes, 1, 1, 0, None, args, None), "launch of " + op["Key"])
        check(cuda.cuCtxSynchronize(), op["Key"])
        out = (ctypes.c_uint64 * lanes)()
        check(cuda.cuMemcpyDtoH_v2(out, dout, ctypes.sizeof(out)), "copy")
        print(op["Key"], "=>", " ".join(f"{x:x}" for x in out))
        cuda.cuModuleUnload(module)


main()
