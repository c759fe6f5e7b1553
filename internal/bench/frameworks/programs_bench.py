"""Small programs of public libraries on a GPU, for `pvdrm bench frameworks --frameworks programs`; see torch_bench.py.

Each runs in a process of its own, with random weights and no downloads. PVDRM was not changed for any of them.
"""
import hashlib
import json
import os
import subprocess
import sys

LIMIT = 180  # seconds for a program


def say(**fields):
    print("pvdrm:" + json.dumps(fields), flush=True)


def result(what, *values):
    import numpy as np

    digest = hashlib.sha256()
    for v in values:
        if hasattr(v, "detach"):
            v = v.detach().float().cpu().numpy()
        v = np.ascontiguousarray(np.asarray(v))
        digest.update(f"{v.dtype} {v.shape}".encode() + v.tobytes())
    say(result=f"{sys.argv[1]}: {what}", digest=digest.hexdigest()[:32])


def setup():
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    return torch


def train(torch, model, loss, steps=4):
    """Trains, and tells the losses and some of the weights."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    result("losses", losses)
    result("weights", *list(model.parameters())[:8])


def bert():
    torch = setup()
    from transformers import BertConfig, BertForSequenceClassification
    sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, vocab_size=1000)
    m = BertForSequenceClassification(BertConfig(**sizes)).cuda()
    x, y = torch.randint(0, 1000, (8, 64)).cuda(), torch.randint(0, 2, (8,)).cuda()
    train(torch, m, lambda m: m(input_ids=x, labels=y).loss)


def gpt2():
    torch = setup()
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config(n_embd=128, n_layer=3, n_head=4, vocab_size=2000)).cuda().eval()
    x = torch.randint(0, 2000, (2, 16)).cuda()
    result("tokens", m.generate(x, max_new_tokens=40, do_sample=False, pad_token_id=0))


def llama():
    torch = setup()
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4, vocab_size=2000)
    m = LlamaForCausalLM(LlamaConfig(**sizes)).cuda().half().eval()
    x = torch.randint(0, 2000, (1, 20)).cuda()
    result("tokens", m.generate(x, max_new_tokens=40, do_sample=False, pad_token_id=0))
    m, y = m.float().train(), torch.randint(0, 2000, (4, 64)).cuda()
    train(torch, m, lambda m: m(input_ids=y, labels=y).loss)


def t5():
    torch = setup()
    from transformers import T5Config, T5ForConditionalGeneration
    sizes = dict(d_model=128, d_ff=256, num_layers=2, num_heads=4, d_kv=32, vocab_size=1000, decoder_start_token_id=0)
    m = T5ForConditionalGeneration(T5Config(**sizes)).cuda()
    x = torch.randint(1, 1000, (4, 32)).cuda()
    train(torch, m, lambda m: m(input_ids=x, labels=x).loss)


def vit():
    torch = setup()
    from transformers import ViTConfig, ViTForImageClassification
    sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, image_size=64, patch_size=8)
    m = ViTForImageClassification(ViTConfig(**sizes)).cuda()
    x, y = torch.randn(4, 3, 64, 64).cuda(), torch.randint(0, 2, (4,)).cuda()
    train(torch, m, lambda m: m(pixel_values=x, labels=y).loss)


def whisper():
    torch = setup()
    from transformers import WhisperConfig, WhisperModel
    sizes = dict(d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000, max_source_positions=100,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    m = WhisperModel(WhisperConfig(**sizes)).cuda().eval()
    x, d = torch.randn(2, 80, 200).cuda(), torch.randint(0, 1000, (2, 8)).cuda()
    with torch.no_grad():
        result("hidden states", m(input_features=x, decoder_input_ids=d).last_hidden_state)


def sentence():
    torch = setup()
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel
    m = BertModel(BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=500)).cuda().eval()
    x = torch.randint(0, 500, (4, 12)).cuda()
    k = torch.ones_like(x)
    with torch.no_grad():
        features = {"token_embeddings": m(x, k).last_hidden_state, "attention_mask": k}
        result("embeddings", Pooling(64)(features)["sentence_embedding"])


def resnet():
    torch = setup()
    import timm
    m = timm.create_model("resnet18", num_classes=10).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(8, 3, 96, 96).cuda().to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (8,)).cuda()

    def loss(m):
        with torch.autocast("cuda", dtype=torch.float16):
            return torch.nn.functional.cross_entropy(m(x), y)
    train(torch, m, loss)


def efficientnet():
    torch = setup()
    import timm
    m = timm.create_model("efficientnet_b0", num_classes=10).cuda().eval()
    with torch.no_grad():
        result("logits", m(torch.randn(4, 3, 128, 128).cuda()))


def convnext():
    torch = setup()
    import timm
    m = timm.create_model("convnext_atto", num_classes=10).cuda()
    x, y = torch.randn(4, 3, 64, 64).cuda(), torch.randint(0, 10, (4,)).cuda()
    train(torch, m, lambda m: torch.nn.functional.cross_entropy(m(x), y))


def vit_tiny():
    torch = setup()
    import timm
    m = timm.create_model("vit_tiny_patch16_224", num_classes=10).cuda().bfloat16().eval()
    with torch.no_grad():
        result("logits", m(torch.randn(4, 3, 224, 224).cuda().bfloat16()))


def lightning(precision="32-true"):
    torch = setup()
    import lightning as L
    n = torch.nn

    class Autoencoder(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = n.Sequential(n.Conv2d(1, 8, 3, 2, 1), n.ReLU(), n.Conv2d(8, 16, 3, 2, 1), n.ReLU(),
                                    n.ConvTranspose2d(16, 8, 2, 2), n.ReLU(), n.ConvTranspose2d(8, 1, 2, 2))

        def training_step(self, batch, _):
            return n.functional.mse_loss(self.net(batch[0]), batch[0])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)
    L.seed_everything(0)
    data, m = torch.utils.data.TensorDataset(torch.randn(256, 1, 28, 28)), Autoencoder()
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, precision=precision, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(m, torch.utils.data.DataLoader(data, batch_size=32))
    result("weights", *m.parameters())


def lightning_mixed():
    lightning("16-mixed")


def graph_convolution(kind="GCNConv"):
    torch = setup()
    import torch_geometric.nn
    layer = getattr(torch_geometric.nn, kind)
    edges, x, y = torch.randint(0, 500, (2, 3000)).cuda(), torch.randn(500, 32).cuda(), torch.randint(0, 4, (500,)).cuda()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = layer(32, 64), layer(64, 4)

        def forward(self):
            return self.b(self.a(x, edges).relu(), edges)
    train(torch, Net().cuda(), lambda m: torch.nn.functional.cross_entropy(m(), y))


def graph_attention():
    graph_convolution("GATConv")


def vision():
    torch = setup()
    import torchvision
    corner = torch.rand(500, 2)
    boxes, scores = torch.cat([corner, corner + torch.rand(500, 2)], 1).cuda(), torch.rand(500).cuda()
    result("nms", torchvision.ops.nms(boxes, scores, 0.5))
    result("roi_align", torchvision.ops.roi_align(torch.randn(1, 8, 32, 32).cuda(), [boxes[:20] * 20], (7, 7)))
    m = torchvision.models.mobilenet_v3_small(num_classes=5).cuda()
    x, y = torch.randn(4, 3, 64, 64).cuda(), torch.randint(0, 5, (4,)).cuda()
    train(torch, m, lambda m: torch.nn.functional.cross_entropy(m(x), y))


def lstm():
    torch = setup()
    n = torch.nn

    class Net(n.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru = n.LSTM(32, 64, 2, batch_first=True), n.GRU(64, 32, bidirectional=True, batch_first=True)
            self.out = n.Linear(64, 5)

        def forward(self, x):
            return self.out(self.gru(self.lstm(x)[0])[0][:, -1])
    x, y = torch.randn(8, 20, 32).cuda(), torch.randint(0, 5, (8,)).cuda()
    train(torch, Net().cuda(), lambda m: n.functional.cross_entropy(m(x), y))


def compiled():
    torch = setup()
    n = torch.nn
    m = n.Sequential(n.Linear(64, 128), n.GELU(), n.LayerNorm(128), n.Linear(128, 64)).cuda()
    f, x = torch.compile(m), torch.randn(32, 64).cuda()
    train(torch, m, lambda m: (f(x) - x).square().mean())


def diffrax():
    import diffrax as d
    import jax.numpy as jnp
    oscillator = d.ODETerm(lambda t, y, a: jnp.stack([y[1], a * (1 - y[0] ** 2) * y[1] - y[0]]))
    solution = d.diffeqsolve(oscillator, d.Tsit5(), 0.0, 20.0, 0.01, jnp.array([2.0, 0.0]), args=3.0,
                             stepsize_controller=d.PIDController(1e-5, 1e-5), saveat=d.SaveAt(ts=jnp.linspace(0, 20, 50)))
    result("states", solution.ys)


def numpyro():
    import jax
    import jax.numpy as jnp
    import numpyro as n
    from numpyro.distributions import Normal
    x = jnp.linspace(-1, 1, 100)

    def line(x, y=None):
        a, b = n.sample("a", Normal(0, 2)), n.sample("b", Normal(0, 2))
        n.sample("y", Normal(a * x + b, 0.1), obs=y)
    chain = n.infer.MCMC(n.infer.NUTS(line), num_warmup=50, num_samples=50, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), x, 2 * x + 1)
    result("samples", chain.get_samples()["a"], chain.get_samples()["b"])


def optax():
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax as o

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(10)(nn.relu(nn.Dense(64)(nn.Conv(8, (3, 3))(x).reshape(x.shape[0], -1))))
    m, x, y = Net(), jax.random.normal(jax.random.PRNGKey(1), (16, 12, 12, 1)), jnp.arange(16) % 10
    p, adam = m.init(jax.random.PRNGKey(0), x), o.adamw(1e-3)

    @jax.jit
    def step(p, state):
        loss, g = jax.value_and_grad(lambda p: o.softmax_cross_entropy_with_integer_labels(m.apply(p, x), y).mean())(p)
        change, state = adam.update(g, state, p)
        return o.apply_updates(p, change), state, loss
    state, losses = adam.init(p), []
    for _ in range(10):
        p, state, loss = step(p, state)
        losses.append(float(loss))
    result("losses", losses)


def equinox():
    import equinox as e
    import jax
    import jax.numpy as jnp
    m, x = e.nn.MLP(16, 4, 64, 3, key=jax.random.PRNGKey(0)), jax.random.normal(jax.random.PRNGKey(1), (64, 16))

    @e.filter_jit
    def step(m):
        loss, g = e.filter_value_and_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(m)
        return e.apply_updates(m, jax.tree_util.tree_map(lambda v: -0.1 * v if e.is_array(v) else v, g)), loss
    losses = []
    for _ in range(10):
        m, loss = step(m)
        losses.append(float(loss))
    result("losses", losses)


PROGRAMS = {f.__name__: f for f in (
    bert, gpt2, llama, t5, vit, whisper, sentence, resnet, efficientnet, convnext, vit_tiny, lightning, lightning_mixed,
    graph_convolution, graph_attention, vision, lstm, compiled, diffrax, numpyro, optax, equinox)}


def main():
    if len(sys.argv) == 3 and sys.argv[2] == "alone":
        PROGRAMS[sys.argv[1]]()
        return
    # XLA chooses kernels by how long they take, and two native runs would differ.
    flags = " ".join([os.environ.get("XLA_FLAGS", ""), "--xla_gpu_autotune_level=0"]).strip()
    env = dict(os.environ, XLA_FLAGS=flags, XLA_PYTHON_CLIENT_PREALLOCATE="false", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    env.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    say(versions=f"Python {sys.version.split()[0]}", device="")
    for name in sys.argv[1:] or PROGRAMS:
        command = [sys.executable, os.path.abspath(__file__), name, "alone"]
        try:
            subprocess.run(command, env=env, stderr=subprocess.PIPE, timeout=LIMIT, check=True)
        except (subprocess.SubprocessError, OSError) as e:  # the others may work
            why = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
            say(failed=name, error=f"{type(e).__name__}: {' '.join(why[-1:])}"[:600])


main()
