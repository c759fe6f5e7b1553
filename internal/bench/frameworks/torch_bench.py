"""PyTorch on a GPU, for `pvdrm bench frameworks`: results as digests, and how long things take.

Prints a JSON object a line behind "pvdrm:". Arguments are the names of groups; without any all run.
"""
import gc
import hashlib
import json
import os
import sys
import time

START = time.perf_counter()
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic algorithms demand

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

IMPORTED = time.perf_counter()
GPU = "cuda"
GROUPS = {}


def say(**fields):
    print("pvdrm:" + json.dumps(fields), flush=True)


def group(f):
    GROUPS[f.__name__] = f
    return f


def flat(values):
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from flat(v)
        else:
            yield v


def result(name, *values):
    """Says what the values are, bit for bit."""
    digest = hashlib.sha256()
    for v in flat(values):
        if isinstance(v, torch.Tensor):
            t = v.detach().cpu().contiguous()
            digest.update(f"{t.dtype} {tuple(t.shape)}".encode())
            digest.update(t.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(v).encode())
    say(result=name, digest=digest.hexdigest()[:32])


def figure(name, unit, values):
    say(figure=name, unit=unit, values=[round(v, 6) for v in values])


def timed(name, unit, scale, f, repeats, runs=7):
    """Measures f, which queues work, by runs of so many repeats. The first run warms up."""
    values = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            f()
        torch.cuda.synchronize()
        values.append((time.perf_counter() - begin) / repeats * scale)
    figure(name, unit, values[1:])


def numbers(*shape, dtype=torch.float32, seed=1):
    """Random numbers that do not depend on the GPU, on it."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(GPU)


# Results.


@group
def first():
    x = torch.zeros(1, device=GPU)
    x += 1
    result("first tensor", x)
    figure("import torch", "s", [IMPORTED - START])
    figure("first tensor after import", "ms", [(time.perf_counter() - IMPORTED) * 1e3])


@group
def elementwise():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x, y = numbers(1000, 37, dtype=dtype), numbers(1000, 37, dtype=dtype, seed=2)
        result(f"elementwise {dtype}", x * 2 + 1, x + y, x.exp(), x.sin(), torch.sigmoid(x), torch.tanh(y), F.gelu(x), x / y,
               torch.where(x > y, x, y), x.clamp(-0.5, 0.5), x.t().contiguous(), x > 0, torch.erf(x), x.abs().sqrt())
    i = torch.arange(100000, device=GPU)
    result("elementwise integers", i * 3 % 7, i << 2, i ^ 5, i.to(torch.uint8), i.to(torch.float16), -i // 3)
    z = torch.complex(numbers(500), numbers(500, seed=2))
    result("elementwise complex", z * z, z.abs(), z.conj(), torch.exp(z))


@group
def reductions():
    for dtype in (torch.float32, torch.float16):
        x = numbers(300, 1111, dtype=dtype)
        result(f"reductions {dtype}", x.sum(), x.mean(0), x.var(1), x.max(), x.argmax(1), x.cumsum(1), x.norm(), torch.logsumexp(x, 1),
               x.softmax(1), F.layer_norm(x, (1111,)), x.any(), x.std(0), x.min(0), x.aminmax())
    i = torch.arange(1 << 20, device=GPU)
    result("reductions of integers", i.sum(), i.bincount(minlength=3).sum(), (i % 1000).float().histc(100), i.cummax(0), i.prod())


@group
def sorting():
    x = numbers(200, 5000)
    result("sort", x.sort(1), x.flatten().sort(descending=True), x.topk(17, 1), x.median(1), x.kthvalue(9, 1))
    i = (x.flatten() * 100).long()
    result("unique", i.unique(return_counts=True, return_inverse=True), torch.searchsorted(i.sort()[0], i[:100]))


@group
def indexing():
    x = numbers(500, 300)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(3)).to(GPU)
    index = torch.randint(0, 300, (500, 50), generator=torch.Generator().manual_seed(4)).to(GPU)
    y = x.clone()
    y[order[:100]] = 7
    y.index_add_(0, order[:50], x[:50])
    result("indexing", x[order], x.gather(1, index), torch.zeros_like(x).scatter_(1, index[:, :1], 1.0), x[x > 1], y, (x > 2).nonzero(),
           x.flip(0), x.roll(3, 1), torch.cat([x, y], 1), x[:, ::7], F.embedding(index, x[:300]), x.tril(), x.repeat(2, 3))


@group
def random():
    torch.manual_seed(5)
    d = nn.Dropout(0.3)
    result("random numbers", torch.randn(3333, device=GPU), torch.rand(100, 100, device=GPU, dtype=torch.float64), torch.randint(0, 99, (999,), device=GPU),
           torch.bernoulli(torch.full((1000,), 0.3, device=GPU)), torch.randperm(5000, device=GPU), torch.rand(50, device=GPU).multinomial(10),
           d(torch.ones(1000, device=GPU)), torch.empty(1000, device=GPU).exponential_(), torch.randn(1000, device=GPU, dtype=torch.float16))


@group
def autograd():
    x, w = numbers(100, 1000).requires_grad_(), numbers(1000, seed=2).requires_grad_()
    loss = ((x.sin() * w).sigmoid().pow(2).mean() + F.softmax(x, 1).max(1)[0].sum())
    loss.backward()
    result("autograd", loss, x.grad, w.grad)


@group
def streams():
    side, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    x = numbers(1 << 20)
    begin.record()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.current_stream())
        y = x * 3
        end.record()
    torch.cuda.current_stream().wait_stream(side)
    host = torch.empty(1 << 20, pin_memory=True)
    host.copy_(y + 1, non_blocking=True)
    torch.cuda.synchronize()
    result("streams", host, begin.elapsed_time(end) > 0)


@group
def memory():
    free, total = torch.cuda.mem_get_info()
    try:
        torch.empty(2 * total, dtype=torch.uint8, device=GPU)
        error = "none"
    except torch.cuda.OutOfMemoryError:
        error = "out of memory"
    x = [torch.full((1 << 22,), i, device=GPU) for i in range(20)]
    del x[::2]
    torch.cuda.empty_cache()
    result("memory", error, free <= total, sum(v.sum().item() for v in x))


@group
def matmul():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        a, b = numbers(128, 256, dtype=dtype), numbers(256, 192, dtype=dtype, seed=2)
        result(f"matmul {dtype}", a @ b, torch.addmm(numbers(192, dtype=dtype), a, b), torch.bmm(a.view(4, 32, 256), b.expand(4, 256, 192)), a @ b[:, 0])


@group
def mlp():
    torch.manual_seed(6)
    m = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(GPU)
    o = torch.optim.Adam(m.parameters())
    x, y = numbers(256, 64), torch.arange(256, device=GPU) % 10
    for _ in range(20):
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()
    result("multilayer perceptron", list(m.parameters()))


def cnn():
    torch.manual_seed(7)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(GPU)


@group
def convolution():
    torch.backends.cudnn.deterministic = True  # else two native runs differ
    m, x, y = cnn(), numbers(64, 3, 32, 32), torch.arange(64, device=GPU) % 10
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()
    result("convolutional network", list(m.parameters()), m(x))


def encoder(layers):
    torch.manual_seed(8)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(GPU).half()


@group
def transformer():
    m, x = encoder(2), numbers(8, 64, 512, dtype=torch.float16)
    y = m(x)
    (y.float() ** 2).mean().backward()
    result("transformer in fp16", y, [p.grad for p in m.parameters()])
    q = numbers(2, 8, 128, 64, dtype=torch.float16)
    result("attention", F.scaled_dot_product_attention(q, q, q, is_causal=True))


@group
def linalg():
    a = numbers(64, 64, dtype=torch.float64)
    s = a @ a.t() + torch.eye(64, device=GPU, dtype=torch.float64) * 64
    result("linear algebra", torch.linalg.cholesky(s), torch.linalg.solve(s, a), torch.linalg.svd(a)[1], torch.linalg.qr(a), torch.linalg.eigh(s)[0], torch.det(s))


@group
def fourier():
    x = numbers(16, 1024)
    result("Fourier transforms", torch.view_as_real(torch.fft.fft(x)), torch.view_as_real(torch.fft.rfft2(x)), torch.fft.irfft(torch.fft.rfft(x)))


def captured(step, x, steps=10):
    """Captures steps in a graph, each on the result of the one before."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(steps):
            y = step(y)
    return graph, y


@group
def graph():
    x = numbers(1024)
    g, y = captured(lambda v: v * 0.5 + 1, x)
    g.replay()
    before = y.clone()
    x.copy_(numbers(1024, seed=9))
    g.replay()
    result("graph", before, y)


@group
def compiled():
    @torch.compile
    def f(a, b):
        return torch.relu(a * 2 + b).sum(1), (a - b).exp().softmax(1)

    result("torch.compile", f(numbers(100, 1000), numbers(100, 1000, seed=2)))


@group
def triton_kernel():
    import triton_add
    x, y = numbers(10000), numbers(10000, seed=2)
    result("Triton", triton_add.add(x, y), triton_add.dot(numbers(64, 64), numbers(64, 64, seed=2)))


# Deterministic training, and a small model that speaks.


@group
def losses():
    torch.use_deterministic_algorithms(True)
    m, x = cnn(), numbers(64, 3, 32, 32)
    y = torch.arange(64, device=GPU) % 10
    o = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
    all_losses = []
    for _ in range(200):
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        all_losses.append(loss.detach())
    torch.use_deterministic_algorithms(False)
    result("losses of 200 steps", torch.stack(all_losses))


class Small(nn.Module):
    """A small GPT."""

    def __init__(self, words=256, width=128, room=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(room, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, words)

    def forward(self, x):
        n = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=x.device)
        return self.head(self.body(self.words(x) + self.places[:n], mask=mask, is_causal=True))


@group
def tokens():
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(10)
    m = Small().to(GPU)
    text = torch.tensor([(i * i + 3 * i) % 251 for i in range(4096)], device=GPU)
    o = torch.optim.AdamW(m.parameters(), lr=1e-3)
    for i in range(100):
        at = (i * 37) % 4000
        x = torch.stack([text[(at + 61 * k) % 4000:][:65] for k in range(16)])
        o.zero_grad()
        F.cross_entropy(m(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        o.step()
    said = text[:8].tolist()
    with torch.no_grad():
        for _ in range(40):
            said.append(m(torch.tensor([said[-64:]], device=GPU))[0, -1].argmax().item())
    torch.use_deterministic_algorithms(False)
    result("tokens of a small GPT", said)


# Times.


@group
def eager():
    x = numbers(1024)

    def step():
        nonlocal x
        x = x * 1.0001

    timed("small operation, eager", "us", 1e6, step, 2000)


@group
def launches():
    x = numbers(1024)

    def step():
        x.mul_(1.0)
        torch.cuda.synchronize()

    timed("launch and synchronise", "us", 1e6, step, 500)


@group
def copies():
    host, there = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True), torch.empty(64 << 20, dtype=torch.uint8, device=GPU)
    timed("64 MiB pinned to the GPU", "ms", 1e3, lambda: there.copy_(host, non_blocking=True), 20)
    timed("64 MiB pinned from the GPU", "ms", 1e3, lambda: host.copy_(there, non_blocking=True), 20)


@group
def replays():
    g, _ = captured(lambda v: v * 1.0001, numbers(1024))
    timed("graph of ten small operations", "us", 1e6, g.replay, 500)


@group
def compiled_step():
    x = numbers(1 << 20)
    f = torch.compile(lambda a: torch.relu(a * 2 + 1).sum())
    timed("torch.compile, a fused reduction", "us", 1e6, lambda: f(x), 500)


@group
def transformer_step():
    m, x = encoder(6), numbers(16, 128, 512, dtype=torch.float16)
    o = torch.optim.SGD(m.parameters(), lr=1e-4)

    def step():
        o.zero_grad()
        m(x).float().pow(2).mean().backward()
        o.step()

    timed("transformer step, fp16", "ms", 1e3, step, 10)


@group
def cnn_step():
    m, x, y = cnn(), numbers(256, 3, 64, 64), torch.arange(256, device=GPU) % 10
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    def step():
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()

    timed("CNN training step", "ms", 1e3, step, 20)


@group
def captures():
    """Captures whole steps, with what calls libraries in them, and replays them."""
    def replayed(name, unit, scale, step, repeats):
        graph, y = captured(lambda _: step(), None, 1)
        for _ in range(8):
            graph.replay()
        result(name, y)
        timed(name, unit, scale, graph.replay, repeats)

    def training(m, loss, lr):
        o = torch.optim.SGD(m.parameters(), lr=lr)

        def step():
            o.zero_grad(set_to_none=True)
            value = loss(m)
            value.backward()
            o.step()
            return value

        return step

    def hundred():
        v = start
        for _ in range(50):
            v = torch.sin(v * 1.0001)
        return v

    start, x, y = numbers(4096), numbers(256, 3, 64, 64), torch.arange(256, device=GPU) % 10
    small, large = numbers(4, 64, 512, dtype=torch.float16), numbers(8, 64, 512, dtype=torch.float16)
    m = encoder(6).eval()
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    with torch.no_grad():
        replayed("captured: 100 small operations", "us", 1e6, hundred, 200)
        replayed("captured: encoder of six layers, fp16", "us", 1e6, lambda: m(small), 50)
    replayed("captured: transformer training step, fp16", "ms", 1e3, training(encoder(3), lambda m: m(large).float().pow(2).mean(), 1e-4), 20)
    replayed("captured: CNN training step", "ms", 1e3, training(cnn(), lambda m: F.cross_entropy(m(x), y), 0.1), 20)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False


def main():
    say(versions=f"PyTorch {torch.__version__}", device=torch.cuda.get_device_name(), bytes=torch.cuda.get_device_properties(0).total_memory)
    for name in sys.argv[1:] or GROUPS:
        try:
            GROUPS[name]()
        except Exception as e:  # the others may work
            say(failed=name, error=f"{type(e).__name__}: {e}".split("\nSearch for")[0][:600])
        gc.collect()


main()
