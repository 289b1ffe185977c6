"""Loops in many forms, all in one forward: what becomes of them, and that what is offered gives the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rules import harness
from tests.rules.loop_cases import Case, differences, found_by_class, program

from forwardlens.rules.contract import Match
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

FIXED = "a safe fix for the whole loop"
MOVED = "steps are computed before the loop"
LEFT = "no fix that replaces the loop"
ANY = "whatever is offered gives the same"

RULES = ("embedding-in-loop", "masking-in-loop", "elementwise-loop", "scalar-access-in-loop", "invariant-in-loop")

# What the rounds call.
SMALL_LAYERS = """
self.emb = nn.Embedding(50, 8)
self.lin = nn.Linear(8, 8)
self.bn = nn.BatchNorm1d(8)
self.drop = nn.Dropout(0.5)
self.count = 0
"""
LARGE_LAYERS = """
self.emb = nn.Embedding(500, 16)
self.lin = nn.Linear(16, 16)
self.norm = nn.LayerNorm(16)
self.cell = nn.GRUCell(16, 16)
"""

LARGEST_ADDED_UP = """
def forward(self, x):
    total = torch.zeros(8)
    for t in range(x.size(0)):
        total = total + (x[t] * 2).amax(0)
    return total
"""

FRAMES = "torch.randn(2, 24, 3, 8, 8)"
NETWORKS = """
self.conv = nn.Conv2d(3, 4, 3, padding=1)
self.cnn = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))
self.rectified = nn.Sequential(nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1))
self.normed = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
self.out = nn.Linear(96, 3)
self.rows = nn.Parameter(torch.randn(2, 1))
self.emb = nn.Embedding(50, 6)
self.mix = nn.Linear(6, 5)
self.query = nn.Parameter(torch.randn(5))
"""
CASES = [
    Case(
        "partly filled",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(1, x.size(0)):
                out[t] = x[t] - x[t - 1]
            return out
        """,
    ),
    Case(
        "shift fwd",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            n = x.size(0)
            out = []
            for t in range(n - 1):
                out.append(x[t + 1] - x[t])
            return torch.stack(out)
        """,
    ),
    Case(
        "filled from int",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros(x.size(0))
            for t in range(x.size(0)):
                out[t] = (x[t] > 0).sum()
            return out
        """,
    ),
    Case(
        "filled broadcast",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros(x.size(0), 4)
            for t in range(x.size(0)):
                out[t] = x[t].sum()
            return out
        """,
    ),
    Case(
        "filled wider than loop",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros(40, 8)
            for t in range(x.size(0)):
                out[t] = x[t].tanh()
            return out
        """,
    ),
    Case(
        "if else write",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(x.size(0)):
                if x[t, 0] > 0:
                    out[t] = x[t] * 2
                else:
                    out[t] = x[t] * -1
            return out
        """,
    ),
    Case(
        "if reads own",
        FIXED,
        "torch.randn(30)",
        """
        def forward(self, x):
            x = x.clone()
            for i in range(x.size(0)):
                if x[i] < 0:
                    x[i] *= 0.5
                else:
                    x[i] /= 2.0
            return x
        """,
    ),
    Case(
        "if two things",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            a = torch.zeros_like(x)
            b = torch.ones_like(x)
            for i in range(x.size(0)):
                if x[i, 0] < 0:
                    a[i] = x[i] + 1
                    b[i] = x[i] * 2
            return a + b
        """,
    ),
    Case(
        "if and not",
        FIXED,
        "torch.randn(30, 8), torch.rand(30) > 0.5",
        """
        def forward(self, x, m):
            out = x * 1.0
            for i in range(x.size(0)):
                if not m[i] and x[i, 0] > 0:
                    out[i] = 0.0
            return out
        """,
    ),
    Case(
        "nested sums",
        FIXED,
        "torch.randn(6, 30, 8), torch.randn(30)",
        """
        def forward(self, x, w):
            out = torch.zeros(x.size(0), 8)
            for b in range(x.size(0)):
                for t in range(x.size(1)):
                    out[b] += x[b, t] * w[t]
            return out
        """,
    ),
    Case(
        "nested acc restarts",
        LEFT,
        "torch.randn(6, 30, 8), torch.randn(30)",
        """
        def forward(self, x, w):
            outs = []
            for b in range(x.size(0)):
                acc = 0.0
                for t in range(x.size(1)):
                    acc = acc + x[b, t] * w[t]
                outs.append(acc)
            return torch.stack(outs)
        """,
    ),
    Case(
        "nested transposed write",
        FIXED,
        "torch.randn(6, 10, 8)",
        """
        def forward(self, x):
            out = torch.zeros(10, 6, 8)
            for b in range(x.size(0)):
                for t in range(x.size(1)):
                    out[t, b] = x[b, t].sigmoid()
            return out
        """,
    ),
    Case(
        "nested const list",
        FIXED,
        "torch.randn(6, 10, 8)",
        """
        def forward(self, x):
            rows = []
            for b in range(x.size(0)):
                row = []
                for t in range(x.size(1)):
                    row.append((x[b, t] * 2).sum())
                rows.append(torch.stack(row))
            return torch.stack(rows, dim=1)
        """,
    ),
    Case(
        "nested reversed inner",
        FIXED,
        "torch.randn(6, 10, 8)",
        """
        def forward(self, x):
            rows = []
            for b in range(x.size(0)):
                row = []
                for t in reversed(range(x.size(1))):
                    row.append(x[b, t].exp())
                rows.append(torch.stack(row, dim=1))
            return torch.stack(rows, dim=0)
        """,
    ),
    Case(
        "backwards write",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(x.size(0) - 1, -1, -1):
                out[t] = x[t].tanh()
            return out
        """,
    ),
    Case(
        "backwards cat",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for t in range(len(x) - 1, -1, -1):
                out.append(x[t : t + 1] * 2)
            return torch.cat(out, 0)
        """,
    ),
    Case(
        "step 3 from 1",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(1, x.size(0), 3):
                out[t] = x[t].exp()
            return out
        """,
    ),
    Case(
        "while reads t",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            t = 0
            out = []
            while t <= x.size(0) - 1:
                out.append(x[t].exp())
                t = t + 1
            return torch.stack(out)
        """,
    ),
    Case(
        "helper two temps",
        FIXED,
        "torch.randint(0, 50, (6, 30)), torch.randn(8)",
        """
        def look(self, ids, g):
            e = self.emb(ids)
            s = torch.sigmoid(e * g)
            return e * s + s

        def forward(self, x, gate):
            return torch.stack([self.look(x[:, t], gate) for t in range(x.size(1))], 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "helper swapped names",
        FIXED,
        "torch.randint(0, 50, (6, 30)), torch.randint(0, 50, (6, 40))",
        """
        def look(self, x, i):
            return self.emb(x[:, i])

        def forward(self, x, y):
            out = []
            for i in range(x.size(1)):
                out.append(self.look(y, i))
            return torch.stack(out, 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "helper default",
        FIXED,
        "torch.randint(0, 50, (6, 30))",
        """
        def look(self, ids, scale=2.0):
            "Look."
            return self.emb(ids) * scale

        def forward(self, x):
            out = []
            for t in range(x.size(1)):
                out.append(self.look(x[:, t], scale=3.0))
            return torch.stack(out, 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "rebind elem",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for row in x:
                row = row * 2
                row = row + 1
                out.append(row.tanh())
            return torch.stack(out)
        """,
    ),
    Case(
        "two lists",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            a, b = [], []
            for t in range(x.size(0)):
                y = x[t] * 2
                a.append(y)
                b.append(y + 1)
            return torch.stack(a) * torch.stack(b, 1).t()
        """,
    ),
    Case(
        "aug temp",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for t in range(x.size(0)):
                y = x[t] * 2
                y += x[t]
                y *= 0.5
                out.append(y)
            return torch.stack(out)
        """,
    ),
    Case(
        "zip shorter",
        FIXED,
        "torch.randn(30, 8), torch.randn(20, 8)",
        """
        def forward(self, x, y):
            return torch.stack([a * b for a, b in zip(x, y)])
        """,
    ),
    Case(
        "count shorter",
        FIXED,
        "torch.randn(20, 8), torch.randn(30, 8)",
        """
        def forward(self, x, y):
            out = []
            for t in range(x.size(0)):
                out.append(x[t] * y[t])
            return torch.stack(out)
        """,
    ),
    Case(
        "count shorter alone",
        FIXED,
        "torch.randn(20, 8), torch.randn(30, 8)",
        """
        def forward(self, x, y):
            out = []
            for t in range(x.size(0)):
                out.append(y[t].tanh())
            return torch.stack(out) * x
        """,
    ),
    Case(
        "blocks",
        FIXED,
        "torch.randn(4, 96)",
        """
        def forward(self, x):
            outs = []
            for h in range(12):
                outs.append(x[:, h * 8 : (h + 1) * 8].softmax(-1))
            return torch.cat(outs, -1)
        """,
    ),
    Case(
        "blocks write",
        FIXED,
        "torch.randn(4, 96)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for h in range(12):
                out[:, h * 8 : (h + 1) * 8] = x[:, h * 8 : (h + 1) * 8].softmax(-1)
            return out
        """,
    ),
    Case(
        "pos tensor",
        FIXED,
        "torch.randint(0, 50, (6, 30))",
        """
        def forward(self, x):
            out = []
            for t in range(x.size(1)):
                out.append(self.emb(x[:, t]) + self.emb(torch.tensor([t], device=x.device)))
            return torch.stack(out, 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "invariant if with view",
        FIXED,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for t in range(x.size(0)):
                y = x[t]
                if self.count == 0:
                    y = y * 2
                out.append(y)
            return torch.stack(out)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "emb split",
        FIXED,
        "torch.randint(0, 500, (8, 60))",
        """
        def forward(self, x):
            out = [self.emb(c) for c in x.split(1, dim=1)]
            return torch.cat(out, dim=1)
        """,
        LARGE_LAYERS,
    ),
    Case(
        "emb range len xs",
        FIXED,
        "torch.randint(0, 500, (8, 60))",
        """
        def forward(self, x):
            cols = x.unbind(1)
            out = []
            for i in range(len(cols)):
                out.append(self.emb(cols[i]))
            return torch.stack(out, 1)
        """,
        LARGE_LAYERS,
    ),
    Case(
        "emb walrus",
        FIXED,
        "torch.randint(0, 500, (8, 60))",
        """
        def forward(self, x):
            out = []
            for t in range(x.size(1)):
                out.append((e := self.emb(x[:, t])) * torch.sigmoid(e))
            return torch.stack(out, 1)
        """,
        LARGE_LAYERS,
    ),
    Case(
        "emb tuple target",
        FIXED,
        "torch.randint(0, 500, (8, 60)), torch.randint(0, 500, (8, 60))",
        """
        def forward(self, x, y):
            out = []
            for t in range(x.size(1)):
                a, b = self.emb(x[:, t]), self.emb(y[:, t])
                out.append(a * b)
            return torch.stack(out, 1)
        """,
        LARGE_LAYERS,
    ),
    Case(
        "emb nested comp",
        FIXED,
        "torch.randint(0, 500, (6, 12))",
        """
        def forward(self, x):
            return torch.stack([torch.stack([self.emb(w) for w in row]) for row in x])
        """,
        LARGE_LAYERS,
    ),
    Case(
        "heads chunk zip",
        FIXED,
        "torch.randn(2, 10, 96), torch.randn(2, 10, 96), torch.randn(2, 10, 96)",
        """
        def forward(self, q, k, v):
            outs = []
            for a, b, c in zip(q.chunk(12, dim=-1), k.chunk(12, dim=-1), v.chunk(12, dim=-1)):
                outs.append((a @ b.transpose(-2, -1)).softmax(dim=-1) @ c)
            return torch.cat(outs, dim=-1)
        """,
    ),
    Case(
        "heads slices",
        FIXED,
        "torch.randn(2, 10, 96), torch.randn(2, 10, 96), torch.randn(2, 10, 96)",
        """
        def forward(self, q, k, v):
            outs = []
            d = q.size(-1) // self.h
            for i in range(self.h):
                qi, ki, vi = q[..., i * d : (i + 1) * d], k[..., i * d : (i + 1) * d], v[..., i * d : (i + 1) * d]
                w = (qi @ ki.transpose(-2, -1) / d**0.5).softmax(-1)
                outs.append(w @ vi)
            return torch.cat(outs, dim=-1)
        """,
        """
        self.h = 12
        """,
    ),
    Case(
        "heads sdpa",
        FIXED,
        "torch.randn(2, 12, 10, 8), torch.randn(2, 12, 10, 8), torch.randn(2, 12, 10, 8)",
        """
        def forward(self, q, k, v):
            return torch.stack([F.scaled_dot_product_attention(q[:, i], k[:, i], v[:, i]) for i in range(q.size(1))], 1)
        """,
    ),
    Case(
        "pair cos",
        FIXED,
        "torch.randn(16, 8)",
        """
        def forward(self, x):
            n = x.size(0)
            d = torch.zeros(n, n)
            for i in range(n):
                for j in range(n):
                    d[i, j] = F.cosine_similarity(x[i], x[j], dim=0)
            return d
        """,
    ),
    Case(
        "pair dot torch dot",
        FIXED,
        "torch.randn(16, 8)",
        """
        def forward(self, x):
            rows = []
            for a in x:
                rows.append(torch.stack([torch.dot(a, b) for b in x]))
            return torch.stack(rows)
        """,
    ),
    Case(
        "pair flat list",
        FIXED,
        "torch.randn(16, 8)",
        """
        def forward(self, x):
            n = len(x)
            sims = [(x[i] - x[j]).pow(2).sum() for i in range(n) for j in range(n)]
            return torch.stack(sims).view(n, n)
        """,
    ),
    Case(
        "dice per class",
        FIXED,
        "torch.rand(2, 24, 16, 16), torch.rand(2, 24, 16, 16)",
        """
        def forward(self, p, t):
            loss = 0
            for c in range(p.shape[1]):
                inter = (p[:, c] * t[:, c]).sum()
                union = p[:, c].sum() + t[:, c].sum()
                loss = loss + 1 - (2 * inter + 1) / (union + 1)
            return loss / p.shape[1]
        """,
    ),
    Case(
        "causal rows i 1",
        FIXED,
        "torch.randn(4, 40, 40)",
        """
        def forward(self, s):
            n = s.size(-1)
            mask = torch.full((n, n), float("-inf"))
            for i in range(n):
                mask[i, : i + 1] = 0
            return (s + mask).softmax(-1)
        """,
    ),
    Case(
        "mask lengths zip",
        FIXED,
        "torch.randn(64, 24, 8), torch.randint(1, 24, (64,))",
        """
        def forward(self, x, lengths):
            x = x.clone()
            for row, n in zip(x, lengths):
                row[n:] = 0.0
            return x
        """,
    ),
    Case(
        "gather label prob",
        FIXED,
        "torch.randn(128, 30), torch.randint(0, 30, (128,))",
        """
        def forward(self, logits, y):
            logp = logits.log_softmax(-1)
            loss = 0.0
            for i in range(logits.size(0)):
                loss = loss - logp[i, y[i]]
            return loss / logits.size(0)
        """,
    ),
    Case(
        "if not mask continue",
        FIXED,
        "torch.randn(40, 16), torch.rand(40) > 0.5",
        """
        def forward(self, x, keep):
            out = torch.zeros_like(x)
            for t in range(x.size(0)):
                if not keep[t]:
                    continue
                out[t] = x[t] * 2
            return out
        """,
    ),
    Case(
        "filled read in loop",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(1, x.size(0)):
                out[t] = out[t - 1] * 0.5 + x[t]
            return out
        """,
    ),
    Case(
        "if carried",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            h = torch.zeros(8)
            out = []
            for t in range(x.size(0)):
                if x[t].sum() > 0:
                    h = h + x[t]
                out.append(h)
            return torch.stack(out)
        """,
    ),
    Case(
        "if append ragged",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for t in range(x.size(0)):
                if x[t].sum() > 0:
                    out.append(x[t] * 2)
            return torch.stack(out)
        """,
    ),
    Case(
        "if guard div",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            for t in range(x.size(0)):
                if x[t].sum() > 0:
                    out[t] = x[t] / x[t].sum().sqrt()
            return out
        """,
    ),
    Case(
        "nested inner carried",
        LEFT,
        "torch.randn(6, 30, 8)",
        """
        def forward(self, x):
            outs = []
            for b in range(x.size(0)):
                h = torch.zeros(8)
                for t in range(x.size(1)):
                    h = torch.tanh(h + x[b, t])
                outs.append(h)
            return torch.stack(outs)
        """,
    ),
    Case(
        "backwards carry",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, r):
            g = torch.zeros(8)
            out = []
            for t in reversed(range(r.size(0))):
                g = r[t] + 0.9 * g
                out.append(g)
            return torch.stack(out)
        """,
    ),
    Case(
        "while double",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            t = 0
            out = []
            while t < x.size(0):
                out.append(x[t].exp())
                t += 1
                if t == 5:
                    t += 2
            return torch.stack(out)
        """,
    ),
    Case(
        "while t after",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            t = 0
            out = []
            while t < x.size(0):
                out.append(x[t].exp())
                t += 1
            return torch.stack(out) * t
        """,
    ),
    Case(
        "helper counts",
        LEFT,
        "torch.randint(0, 50, (6, 30))",
        """
        def look(self, ids):
            self.count += 1
            return self.emb(ids) * self.count

        def forward(self, x):
            self.count = 0
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "helper bn",
        LEFT,
        "torch.randint(0, 50, (6, 30))",
        """
        def look(self, ids):
            return self.bn(self.emb(ids))

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "helper dropout",
        LEFT,
        "torch.randint(0, 50, (6, 30))",
        """
        def look(self, ids):
            return self.drop(self.emb(ids))

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], 1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "helper inplace",
        LEFT,
        "torch.randn(30, 8)",
        """
        def look(self, row):
            row.mul_(2)
            return row + 1

        def forward(self, x):
            x = x.clone()
            return torch.stack([self.look(x[t]) for t in range(x.size(0))])
        """,
        SMALL_LAYERS,
    ),
    Case(
        "chunk uneven",
        LEFT,
        "torch.randn(4, 10, 30)",
        """
        def forward(self, x):
            return torch.cat([c.softmax(-1) for c in x.chunk(4, dim=-1)], -1)
        """,
    ),
    Case(
        "aug temp alias",
        ANY,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            x = x.clone()
            out = []
            for t in range(x.size(0)):
                y = x[t]
                y += 1
                out.append(y * 2)
            return torch.stack(out) + x
        """,
    ),
    Case(
        "running max grads",
        LEFT,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            best = torch.full((8,), -1e9)
            for t in range(x.size(0)):
                best = torch.maximum(best, self.lin(x[t]))
            return best
        """,
        SMALL_LAYERS,
    ),
    Case(
        "rebind after append",
        ANY,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = []
            for row in x:
                y = row * 2
                out.append(y)
                y = y + 1
                out2 = y
            return torch.stack(out)
        """,
    ),
    Case(
        "filled then alias",
        ANY,
        "torch.randn(30, 8)",
        """
        def forward(self, x):
            out = torch.zeros_like(x)
            view = out.t()
            for t in range(x.size(0)):
                out[t] = x[t] * 2
            return view + 1
        """,
    ),
    Case(
        "nested diag",
        ANY,
        "torch.randn(6, 6)",
        """
        def forward(self, x):
            out = torch.zeros(6, 6)
            for i in range(6):
                for j in range(6):
                    out[i, j] = x[i, i] * x[j, j]
            return out
        """,
    ),
    Case(
        "cut after counters",
        FIXED,
        "torch.zeros(4, 6, 9, dtype=torch.bool), torch.randint(1, 9, (6,))",
        """
        def forward(self, mask, lens):
            for a in range(mask.size(0)):
                for b in range(mask.size(1)):
                    mask[a, b, : lens[b]] = True
            return mask * 2
        """,
    ),
    Case(
        "cut after a number",
        ANY,
        "torch.zeros(4, 6, 9, dtype=torch.bool), torch.randint(1, 9, (6,))",
        """
        def forward(self, mask, lens):
            for b in range(mask.size(1)):
                mask[0, b, : lens[b]] = True
            return mask * 2
        """,
    ),
    Case(
        "helper under a minus",
        FIXED,
        "torch.randn(4, 24, 8)",
        """
        def look(self, row):
            bent = row.tanh()
            return bent + bent.sum()

        def forward(self, x):
            return torch.stack([-self.look(x[:, t]) for t in range(x.size(1))], 1)
        """,
    ),
    Case(
        "carried along the length of another tensor",
        MOVED,
        "torch.randn(4, 24, 8), torch.randn(4, 24, 8)",
        """
        def forward(self, x, y):
            s = torch.ones(4, 8)
            for t in range(x.size(1)):
                s = s * self.lin(y[:, t])
            return s
        """,
        SMALL_LAYERS,
    ),
    Case(
        "carried with a helper",
        MOVED,
        "torch.randn(4, 24, 8)",
        """
        def look(self, row):
            bent = row.tanh()
            return bent + bent.sum(1, keepdim=True)

        def forward(self, x):
            s = torch.ones(4, 8)
            for t in range(x.size(1)):
                s = s * self.lin(self.look(x[:, t]))
            return s
        """,
        SMALL_LAYERS,
    ),
    Case(
        "part of a length, read and written at one place",
        FIXED,
        "torch.randn(4, 24, 8), torch.randn(6, 2)",
        """
        def forward(self, x, rounds):
            for number, row in enumerate(rounds):
                kept = x * 1.0
                for t in range(3):
                    kept[:, t] = (kept[:, t] * 2).neg()
            return kept
        """,
        SMALL_LAYERS,
    ),
    Case(
        "two steps of one name before the loop",
        MOVED,
        "torch.randn(4, 24, 8), torch.randn(4, 8)",
        """
        def forward(self, x, y):
            s = torch.ones(4, 8)
            for t in range(x.size(1)):
                s = torch.tanh(s * x[:, t] + self.lin(y) * 2) - self.lin(y + 1)
            return s
        """,
        SMALL_LAYERS,
    ),
    Case(
        "product of what is the same in every round",
        ANY,
        "torch.randn(24, 8)",
        """
        def forward(self, x):
            rows = []
            for row in torch.unbind(x, dim=1):
                same = torch.arange(8).to(x.dtype)
                rows.append(row * (same @ self.lin.weight).sum())
            return torch.stack(rows)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "largest along its own length, added up",
        LEFT,
        "torch.randn(24, 24, 8)",
        LARGEST_ADDED_UP,
    ),
    Case(
        "largest along another length, added up",
        FIXED,
        "torch.randn(24, 7, 8)",
        LARGEST_ADDED_UP,
    ),
    Case(
        "largest along its own length, stacked",
        FIXED,
        "torch.randn(24, 24, 8)",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(0)):
                rows.append((x[t] * 2).amax(0))
            return torch.stack(rows)
        """,
    ),
    Case(
        "loops over their own name",
        ANY,
        "torch.randn(6, 9)",
        """
        def forward(self, x):
            total = 0.0
            for row in x:
                for row in row:
                    total = total + row * 2
            return total + sum(row[()] for row in x[0])
        """,
    ),
    Case(
        "triangle appended",
        FIXED,
        "torch.randn(8, 12, 10)",
        """
        def forward(self, x):
            out = []
            for i in range(x.size(1)):
                for j in range(i + 1, x.size(1)):
                    out.append(x[:, i] * x[:, j])
            return torch.stack(out, 1)
        """,
    ),
    Case(
        "triangle added up",
        FIXED,
        "torch.randn(8, 12, 10)",
        """
        def forward(self, x):
            total, n = 0.0, x.size(1)
            for i in range(n - 1):
                for j in range(i + 1, n):
                    total = total + (x[:, i] - x[:, j]).pow(2).mean()
            return total / n
        """,
    ),
    Case(
        "triangle below in a comprehension",
        FIXED,
        "torch.randn(8, 12, 10)",
        """
        def forward(self, x):
            return torch.stack([(x[:, i] * x[:, j]).sum(1) for i in range(12) for j in range(i)], dim=1)
        """,
    ),
    Case(
        "combinations of pieces",
        FIXED,
        "torch.randn(8, 12, 10)",
        """
        def forward(self, x):
            from itertools import combinations
            views = torch.split(x, 1, dim=1)
            out = []
            for a, b in combinations(views, 2):
                out.append(a * b)
            return torch.cat(out, dim=1)
        """,
    ),
    Case(
        "triangle summed into rows",
        LEFT,
        "torch.randn(12, 10)",
        """
        def forward(self, x):
            sums = torch.zeros(12)
            for i in range(12):
                for j in range(i + 1, 12):
                    sums[i] += (x[i] * x[j]).sum()
            return sums
        """,
    ),
    Case(
        "triangle with a distance of numbers",
        LEFT,
        "torch.randn(4, 12, 10)",
        """
        def forward(self, x):
            out = []
            for i in range(12):
                for j in range(i + 1, 12):
                    out.append(x[:, i] * x[:, j] / (j - i))
            return torch.stack(out, dim=1)
        """,
    ),
    Case(
        "heads that split made",
        FIXED,
        "torch.randn(2, 10, 64), torch.randn(2, 10, 64)",
        """
        def forward(self, q, k):
            out = []
            for a, b in zip(q.split(8, dim=-1), k.split(8, dim=-1)):
                out.append(torch.bmm(a, b.transpose(1, 2)).softmax(dim=-1))
            return torch.cat(out, dim=-1)
        """,
    ),
    Case(
        "samples that split made",
        FIXED,
        "torch.rand(40, 2, 9), torch.rand(40)",
        """
        def forward(self, gap, delta):
            losses = []
            for err, d in zip(gap.split(1), delta.split(1)):
                losses.append(torch.where(err <= d, 0.5 * err.square(), d * (err - 0.5 * d)).mean())
            return torch.stack(losses)
        """,
    ),
    Case(
        "one matrix of a list each",
        FIXED,
        "torch.randn(2, 8)",
        """
        def forward(self, x):
            return torch.stack([x @ w for w in self.ws], dim=1)
        """,
        "self.ws = nn.ParameterList([torch.randn(8, 4) for _ in range(12)])",
    ),
    Case(
        "select, eq as a method and a count of the module",
        FIXED,
        "torch.rand(2, 30, 8), torch.randint(0, 30, (2, 8))",
        """
        def forward(self, p, labels):
            score = p.new_zeros(self.classes)
            for c in range(self.classes):
                truth = labels.eq(c).to(dtype=p.dtype)
                score[c] = (p.select(1, c) * truth).sum() / (truth.sum() + 1)
            return score
        """,
        "self.classes = 30",
    ),
    Case(
        "einsum round by round",
        FIXED,
        "torch.randn(2, 6, 10, 8), torch.randn(6, 8, 4)",
        """
        def forward(self, x, w):
            out = []
            for h in range(x.size(1)):
                out.append(torch.einsum("bnd,de->bne", x[:, h], w[h]))
            return torch.stack(out, dim=1)
        """,
    ),
    Case(
        "lengths of dimensions of a round",
        FIXED,
        "torch.randn(30, 6, 5), torch.randint(1, 6, (30,))",
        """
        def forward(self, x, n):
            out = []
            for row, k in zip(x, n):
                keep = torch.arange(row.size(0), device=row.device) < k
                out.append(row.masked_fill(~keep[:, None], 0.0))
            return torch.stack(out)
        """,
    ),
    Case(
        "spans with two bounds",
        FIXED,
        "torch.randn(30, 50), torch.randint(0, 40, (30,)), torch.randint(1, 9, (30,))",
        """
        def forward(self, x, start, width):
            x = x.clone()
            for b in range(x.size(0)):
                x[b, start[b] : start[b] + width[b]] = 0
            return x
        """,
    ),
    Case(
        "lengths read as numbers",
        FIXED,
        "torch.randn(30, 50), torch.randint(1, 40, (30,))",
        """
        def forward(self, x, n):
            mask = torch.ones_like(x)
            for b in range(x.shape[0]):
                mask[b, int(n[b].item()) :] = 0
            return x * mask
        """,
    ),
    Case(
        "neighbours grouped by a static helper",
        FIXED,
        "torch.randn(24, 30, 3), torch.randint(0, 30, (24, 6, 4))",
        """
        @staticmethod
        def pick(cloud, idx):
            return cloud.index_select(0, idx.reshape(-1)).view(6, 4, -1)

        def forward(self, feats, nbrs):
            out = feats.new_empty(24, 6, 4, 3)
            for b, (cloud, idx) in enumerate(zip(feats, nbrs)):
                out[b] = self.pick(cloud, idx)
            return out
        """,
    ),
    Case(
        "reads the column before",
        LEFT,
        "torch.randn(4, 24), torch.rand(4, 24) > 0.5",
        """
        def forward(self, x, seen):
            x = x.clone()
            for t in range(1, x.size(1)):
                x[:, t] = torch.where(seen[:, t], x[:, t], x[:, t - 1])
            return x
        """,
    ),
    Case(
        "slots that come again",
        LEFT,
        "torch.randn(12, 8), torch.randint(0, 4, (30,)), torch.randn(30, 8)",
        """
        def forward(self, memory, slots, keys):
            memory = memory.clone()
            for slot, key in zip(slots.tolist(), keys):
                memory[slot] = 0.7 * memory[slot] + 0.3 * key
            return memory
        """,
    ),
    Case(
        "running bounds",
        LEFT,
        "torch.randn(3, 7, 64)",
        """
        def forward(self, x):
            out = torch.empty_like(x)
            lo = 0
            for _ in range(8):
                hi = lo + 8
                out[..., lo:hi] = x[..., lo:hi].softmax(-1)
                lo = hi
            return out
        """,
    ),
    Case(
        "triangle of a sum",
        FIXED,
        "torch.randn(8, 12, 10), torch.randn(8, 12, 10)",
        """
        def forward(self, x, y):
            out = []
            for i in range(12):
                for j in range(i + 1, 12):
                    out.append((x + y)[:, i] * (x + y)[:, j])
            return torch.stack(out, 1)
        """,
    ),
    Case(
        "elements that a function changes meanwhile",
        LEFT,
        "torch.rand(40)",
        """
        def fade(self, x):
            x.mul_(0.9)

        def forward(self, x):
            x, total = x.clone(), 0.0
            for i in range(x.size(0)):
                total = total + x[i].item()
                self.fade(x)
            return x * total
        """,
    ),
    Case(
        "counts by class in columns of one table",
        FIXED,
        "torch.randint(0, 5, (4, 6)), torch.randint(0, 7, (4, 6))",
        """
        def forward(self, said, truth):
            table = torch.zeros(40, 3, dtype=torch.int64)
            for c in range(40):
                one, other = torch.eq(said, c), torch.eq(truth, c)
                table[c, 0] += (one & other).sum()
                table[c, 1] += (one & ~other).sum()
                table[c, 2] += (other & ~one).sum() + table[c, 1]
            return table
        """,
    ),
    Case(
        "column of the round before",
        LEFT,
        "torch.randn(40, 3)",
        """
        def forward(self, x):
            table = x.clone()
            for c in range(1, 40):
                table[c, 0] += table[c - 1, 1].tanh()
                table[c, 1] += x[c].sum()
            return table
        """,
    ),
    Case(
        "the largest along a dimension",
        FIXED,
        "torch.randn(40, 5, 6)",
        """
        def forward(self, x):
            out = []
            for t in range(40):
                row = x[t]
                peak = row.max(dim=1).values
                out.append(peak - torch.min(row, 1)[0] + row.median(dim=-1).values)
            return torch.stack(out)
        """,
    ),
    Case(
        "where the largest is",
        FIXED,
        "torch.randint(0, 3, (40, 5, 6))",
        """
        def forward(self, x):
            return torch.stack([row.max(0)[1] + row.min(dim=0).indices for row in x])
        """,
    ),
    Case(
        "the median of a row",
        FIXED,
        "torch.randn(40, 5)",
        """
        def forward(self, x):
            return torch.stack([row / row.median() for row in x])
        """,
    ),
    Case(
        "the median of a matrix",
        LEFT,
        "torch.randn(40, 5, 6)",
        """
        def forward(self, x):
            return torch.stack([row / row.median() for row in x])
        """,
    ),
    Case(
        "rows of a table cut elsewhere",
        FIXED,
        "torch.randn(30, 8), torch.randint(0, 30, (40, 6)), torch.randn(40, 5)",
        """
        def forward(self, table, near, origin):
            return torch.stack([table[rows, 1:6] - o for rows, o in zip(near, origin)])
        """,
    ),
    Case(
        "columns of a table",
        FIXED,
        "torch.randn(3, 30, 4), torch.randint(0, 30, (40, 6))",
        """
        def forward(self, table, near):
            out = []
            for t in range(40):
                out.append(table[:, near[t]].tanh().sum(0))
            return torch.stack(out)
        """,
    ),
    Case(
        "look-ups of three in a zip",
        FIXED,
        "torch.randint(0, 50, (4, 40)), torch.randint(0, 50, (4, 40)), torch.randn(40, 4, 8)",
        """
        def forward(self, one, other, x):
            rows = zip(one.t(), other.t(), x)
            return torch.stack([self.emb(a) + self.emb(b) * row for a, b, row in rows], dim=1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "a helper given what a zip gives",
        FIXED,
        "torch.randint(0, 50, (4, 40)), torch.randint(0, 50, (4, 40))",
        """
        def both(self, a, b):
            return torch.tanh(self.emb(a) + self.emb(b))

        def forward(self, one, other):
            pairs = zip(one.t(), other.t())
            return torch.stack([self.both(*pair) for pair in pairs], dim=1)
        """,
        SMALL_LAYERS,
    ),
    Case(
        "heads from a generator of pieces",
        FIXED,
        "torch.randn(4, 9, 96), torch.rand(12), torch.randn(12, 9, 9)",
        """
        def forward(self, x, heat, place):
            q, k, v = x, x * 2, x + 1
            parts = (t.chunk(12, dim=-1) for t in (q, k, v))
            merged = []
            for qh, kh, vh, temp, bias in zip(*parts, heat, place):
                score = torch.einsum("wid,wjd->wij", F.normalize(qh, dim=-1), F.normalize(kh, dim=-1))
                merged.append((score * temp + bias).softmax(dim=-1).matmul(vh))
            return torch.cat(merged, dim=-1)
        """,
    ),
    Case(
        "frames through a network",
        FIXED,
        FRAMES,
        """
        def forward(self, x):
            return torch.stack([self.cnn(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "frames through a network, time first",
        FIXED,
        FRAMES,
        """
        def forward(self, x):
            seen = []
            for frame in x.transpose(0, 1):
                seen.append(self.cnn(frame) * 2)
            seen = torch.stack(seen)
            return seen.sum(0)
        """,
        NETWORKS,
    ),
    Case(
        "views joined by their features",
        FIXED,
        FRAMES,
        """
        def forward(self, x):
            return self.out(torch.cat([self.cnn(x[:, i]) for i in range(24)], dim=1))
        """,
        NETWORKS,
    ),
    Case(
        "patches of two loops",
        FIXED,
        "torch.randn(2, 5, 4, 3, 8, 8)",
        """
        def forward(self, x):
            rows = []
            for i in range(x.size(1)):
                for j in range(x.size(2)):
                    rows.append(self.cnn(x[:, i, j]))
            return torch.stack(rows, dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "attention over the words of each item",
        FIXED,
        "torch.randint(0, 50, (3, 24, 7))",
        """
        def pool(self, ids):
            words = self.emb(ids)
            b, n, d = words.shape
            weights = F.softmax(torch.tanh(self.mix(words)) @ self.query, dim=1)
            return torch.bmm(weights.unsqueeze(1), words).squeeze(1).view(b, d)

        def forward(self, x):
            return torch.stack([self.pool(item) for item in x.unbind(dim=1)], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a helper that joins and cuts",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            small = F.max_pool2d(self.conv(frame), 2)
            both = torch.cat([small, -small], dim=1)
            both = both.permute(0, 2, 3, 1)[:, 1:, :, 0]
            return both.reshape(both.size(0), -1)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "frames without a batch",
        LEFT,
        "torch.randn(24, 3, 8, 8)",
        """
        def forward(self, x):
            return torch.stack([self.conv(frame) for frame in x])
        """,
        NETWORKS,
    ),
    Case(
        "frames normalised over the batch",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            seen = self.cnn(frame)
            return seen - seen.mean(dim=0)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "samples that compare each other",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            seen = self.cnn(frame)
            return torch.softmax(seen @ seen.t(), dim=1)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "divided by the number of samples",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(frame) / frame.size(0)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a row for each sample",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(frame) * self.rows

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "the first sample of each frame",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(frame)[:1]

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "samples in the other order",
        LEFT,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(frame).flip(0)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a network that changes its input",
        LEFT,
        FRAMES,
        """
        def forward(self, x):
            x = x.clone()
            return torch.stack([self.rectified(x[:, t]) for t in range(x.size(1))], dim=1).sum() + x.sum()
        """,
        NETWORKS,
    ),
    Case(
        "a network with statistics of the batch",
        LEFT,
        FRAMES,
        """
        def forward(self, x):
            return torch.stack([self.normed(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "two results of a helper",
        FIXED,
        "torch.randn(24, 6), torch.rand(24, 6).round(), torch.rand(6)",
        """
        def scored(self, x, y, c, weights):
            truth = y[:, c]
            loss = F.binary_cross_entropy_with_logits(x[:, c], truth, pos_weight=weights[c])
            right = (x[:, c] > 0).float().eq(truth).float().mean()
            return loss, right

        def forward(self, x, y, weights):
            total, rights = 0, []
            for c in range(x.size(1)):
                loss, right = self.scored(x, y, c, weights)
                total += loss
                rights.append(right)
            return total, torch.stack(rights)
        """,
    ),
    Case(
        "losses that are summed",
        FIXED,
        "torch.randn(6, 24), torch.randn(6, 24)",
        """
        def forward(self, x, y):
            parts = []
            for row, other in zip(x, y):
                parts.append(F.mse_loss(row, other, reduction="sum") + F.l1_loss(row, other, reduction="none").amax())
            return torch.stack(parts)
        """,
    ),
    Case(
        "one sample at a time",
        FIXED,
        "torch.randn(24, 3, 8, 8)",
        """
        def forward(self, x):
            return torch.cat([self.cnn(x[i : i + 1]) for i in range(x.size(0))], dim=0)
        """,
        NETWORKS,
    ),
    Case(
        "one sample at a time, resized",
        FIXED,
        "torch.randn(24, 3, 8, 8)",
        """
        def forward(self, x):
            parts = []
            for image in x:
                parts.append(F.interpolate(image.unsqueeze(0), size=(4, 4), mode="bilinear", align_corners=True))
            parts = torch.cat(parts)
            return parts * 2
        """,
        NETWORKS,
    ),
    Case(
        "carried inside each round",
        LEFT,
        "torch.randn(6, 24, 8), torch.randn(6, 24, 8)",
        """
        def forward(self, x, y):
            rows = []
            for t in range(x.size(1)):
                h = torch.where(y[:, t] > 0, x[:, t], 0.0)
                for step in range(5):
                    h = 0.9 * h + 0.1 * y[:, t].tanh()
                rows.append(h + y[:, t])
            return torch.stack(rows, dim=1)
        """,
    ),
    Case(
        "a view of a clone is scaled",
        ANY,
        "torch.randn(6, 8), torch.randn(6, 8)",
        """
        def forward(self, x, y):
            z = x.clone()
            part = z[:]
            for i in range(x.size(0)):
                part[i] *= y[i].tanh() * 2
            return z + part
        """,
    ),
    Case(
        "added along what may be empty",
        LEFT,
        "torch.randn(6, 24)",
        """
        def forward(self, s):
            z = s * 1.0
            for i in range(s.size(1)):
                z[:, i] += (s[:, i] - s.new_zeros(s.shape[-1], s.shape[0])).amax(-2)
            return z
        """,
    ),
    Case(
        "a norm that names no dimension",
        ANY,
        FRAMES,
        """
        def look(self, frame):
            seen = self.cnn(frame)
            return seen / (1 + seen.norm(1))

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a helper that changes what it is given",
        LEFT,
        FRAMES,
        """
        def look(self, frame):
            frame *= 0.5
            return self.cnn(frame)

        def forward(self, x):
            x = x.clone()
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1) + x.sum()
        """,
        NETWORKS,
    ),
    Case(
        "a helper that rectifies what it is given",
        LEFT,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(F.relu(frame, inplace=True))

        def forward(self, x):
            x = x.clone()
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1) + x.sum()
        """,
        NETWORKS,
    ),
    Case(
        "a helper that draws",
        LEFT,
        FRAMES,
        """
        def look(self, frame):
            return self.cnn(frame) + torch.randn(4)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "divided by the number of samples, by a function",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            return torch.div(self.cnn(frame), frame.size(0))

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a helper that adds to its own",
        FIXED,
        FRAMES,
        """
        def look(self, frame):
            seen = self.cnn(frame)
            twice = seen * 2
            twice += seen
            return torch.maximum(twice, seen)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "a helper that flattens in part",
        ANY,
        FRAMES,
        """
        def look(self, frame):
            seen = self.conv(frame)
            return seen.flatten(start_dim=1, end_dim=2).amax(dim=2)

        def forward(self, x):
            return torch.stack([self.look(x[:, t]) for t in range(x.size(1))], dim=1)
        """,
        NETWORKS,
    ),
    Case(
        "fills a boolean tensor",
        FIXED,
        "torch.randn(24, 6), torch.rand(24, 6) > 0.5",
        """
        def forward(self, s, mask):
            seen = torch.zeros_like(mask)
            for i in range(mask.size(0)):
                seen[i] = mask[i].float() * s[i]
            return seen
        """,
    ),
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[SourceText, dict[str, list[Match]]]:
    """The program, and the findings in each class."""
    folder: Path = tmp_path_factory.mktemp("forms")
    source = SourceText(str(folder / "forms.py"), program(CASES))
    found = found_by_class(CASES, source, harness.measurer(folder)(source), RULES)
    return source, found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_form(case: Case, measured: tuple[SourceText, dict[str, list[Match]]]) -> None:
    source, found = measured
    fixes = [fix for match in found[case.class_name] for fix in match.fixes]
    whole = [fix for fix in fixes if " at once" in fix.title]
    for fix in fixes:
        after = apply_edits(source, fix.edits).text
        assert list(differences(source.text, after, case.class_name)) == [], after
    if case.outcome == MOVED:
        assert any("before the loop" in fix.title for fix in fixes), [match.message for match in found[case.class_name]]
    elif case.outcome != ANY:
        assert bool(whole) == (case.outcome == FIXED), [match.message for match in found[case.class_name]]


def test_a_tensor_that_converts_what_is_written_to_it_stays(
    measured: tuple[SourceText, dict[str, list[Match]]],
) -> None:
    _, found = measured
    texts = [edit.text for match in found["FillsABooleanTensor"] for fix in match.fixes for edit in fix.edits]
    assert texts
    assert not any("seen = " in text for text in texts)


def test_a_helper_is_written_once_where_it_is_called(measured: tuple[SourceText, dict[str, list[Match]]]) -> None:
    _, found = measured
    (fix,) = (fix for match in found["HelperUnderAMinus"] for fix in match.fixes)
    assert [edit.text for edit in fix.edits if "tanh" in edit.text] == ["bent = x.tanh()\n        "]


def test_fixes_beside_each_other_do_not_take_the_same_name(measured: tuple[SourceText, dict[str, list[Match]]]) -> None:
    source, found = measured
    name = "TwoStepsOfOneNameBeforeTheLoop"
    fixes = [fix for match in found[name] for fix in match.fixes if "before the loop" in fix.title]
    assert len(fixes) == 2
    together = apply_edits(source, [edit for fix in fixes for edit in fix.edits]).text
    assert list(differences(source.text, together, name)) == [], together


@pytest.mark.parametrize("name", ["ReadsTheColumnBefore", "SlotsThatComeAgain"])
def test_rounds_that_read_each_others_slices_are_not_called_independent(
    measured: tuple[SourceText, dict[str, list[Match]]], name: str
) -> None:
    assert [match.message for match in measured[1][name] if "independent" in match.message] == []


def test_rounds_with_running_bounds_are_found(measured: tuple[SourceText, dict[str, list[Match]]]) -> None:
    assert ["independent" in match.message for match in measured[1]["RunningBounds"]] == [True]
