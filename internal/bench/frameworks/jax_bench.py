"""JAX on a GPU, for `pvdrm bench frameworks`; see torch_bench.py."""
import hashlib
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def say(**fields):
    print("pvdrm:" + json.dumps(fields), flush=True)


def result(name, *values):
    digest = hashlib.sha256()
    for v in values:
        v = np.asarray(v)
        digest.update(f"{v.dtype} {v.shape}".encode() + v.tobytes())
    say(result=name, digest=digest.hexdigest()[:32])


def numbers(*shape, seed=1):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def elementwise():
    x, y = numbers(100, 37), numbers(100, 37, seed=2)
    result("JAX elementwise", x * 2 + y, jnp.sin(x), jax.nn.gelu(x), jnp.where(x > y, x, y), x.sum(1), jnp.cumsum(x, 1), x.argmax(1))


def matmul():
    result("JAX matmul", numbers(64, 128) @ numbers(128, 32, seed=2))


def sorting():
    result("JAX sort", jnp.sort(numbers(50, 1000)), jnp.argsort(numbers(50, 1000)))


def random():
    key = jax.random.PRNGKey(3)
    result("JAX random numbers", jax.random.normal(key, (1000,)), jax.random.randint(key, (1000,), 0, 99))


def training():
    @jax.jit
    def step(w, x, y):
        def loss(w):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)
        value, grad = jax.value_and_grad(loss)(w)
        return w - 0.1 * grad, value

    w, x, y = numbers(32, 4), numbers(128, 32, seed=2), numbers(128, 4, seed=3)
    losses = []
    for _ in range(50):
        w, value = step(w, x, y)
        losses.append(float(value))
    result("JAX training", w, np.array(losses))
    values = []
    for _ in range(8):
        w.block_until_ready()
        begin = time.perf_counter()
        for _ in range(500):
            w, value = step(w, x, y)
        w.block_until_ready()
        values.append((time.perf_counter() - begin) / 500 * 1e6)
    say(figure="JAX training step", unit="us", values=values[1:])


def main():
    say(versions=f"JAX {jax.__version__}", device=str(jax.devices()[0].device_kind))
    groups = {f.__name__: f for f in (elementwise, matmul, sorting, random, training)}
    for name in sys.argv[1:] or groups:
        try:
            groups[name]()
        except Exception as e:  # the others may work
            say(failed=name, error=f"{type(e).__name__}: {e}"[:600])


main()
