"""The loops that the vectoriser takes apart, all in one forward, so that one run measures them."""

from __future__ import annotations

import pytest
from tests.rules import harness
from tests.rules.loop_cases import Case, differences, found_by_class, program

from forwardlens.rules.contract import Match
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

WHOLE = "the loop is replaced"
HOISTED = "the look-up moves in front of the loop"
EXPLAINED = "reported without a fix"
SILENT = "not reported"

_TITLES = {
    "Look up all indices at once": WHOLE,
    "Mask all rows at once": WHOLE,
    "Look up all indices before the loop": HOISTED,
}


CASES = [
    Case(
        "stacked comprehension",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            return torch.stack([self.emb(x[:, t]) for t in range(x.shape[1])], dim=1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "stacked tuple of a generator",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            return torch.stack(tuple(self.emb(x[:, t]) for t in range(x.shape[1])), 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "named comprehension, concatenated",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            b, n = x.shape
            parts = [self.emb(x[:, t]).unsqueeze(1) for t in range(n)]
            out = torch.cat(parts, dim=1)
            return out * 2
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "unbind",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for col in x.unbind(1):
                rows.append(torch.tanh(self.emb(col)))
            return torch.stack(rows, dim=-2)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "iterates the tensor, stacked later",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for sentence in x:
                rows.append(self.emb(sentence))
            y = x.float().mean()
            return torch.stack(rows) + y
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "enumerate, row written",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            out = torch.zeros(x.size(0), x.size(1), 6)
            for i, row in enumerate(x):
                out[i] = self.emb(row)
            return out
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "slice written",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            b, n = x.size()
            out = torch.empty(b, n, 6, device=x.device)
            for t in range(n):
                out[:, t] = self.lin(self.emb(x[:, t])).relu()
            return out.sum(1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "slice of the last dimension written",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            n = x.shape[-1]
            out = x.new_zeros((x.shape[0], 6, n), dtype=torch.float32)
            for t in range(n):
                out[:, :, t] = self.emb(x[:, t])
            return out
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "recurrence",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            h = torch.zeros(x.size(0), 6)
            outs = []
            for t in range(x.size(1)):
                e = self.emb(x[:, t])
                h = self.cell(e, h)
                outs.append(h)
            return torch.stack(outs, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.cell = nn.GRUCell(6, 6)
        """,
    ),
    Case(
        "literal length",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(10):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "length from an attribute",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(self.steps):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 0)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.steps = 12
        """,
    ),
    Case(
        "starts at one",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(1, x.size(1)):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 2)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "other tensor is longer",
        WHOLE,
        "torch.randint(0, 50, (4, 24)), torch.randint(0, 50, (4, 30))",
        """
        def forward(self, x, y):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]) + self.other(y[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.other = nn.Embedding(50, 6)
        """,
    ),
    Case(
        "invariant table by step",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]) + self.pos[t])
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.pos = nn.Parameter(torch.rand(24, 6))
        """,
    ),
    Case(
        "invariant table by step, stacked first",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]) + self.pos[t])
            return torch.stack(rows)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.pos = nn.Parameter(torch.rand(24, 6))
        """,
    ),
    Case(
        "bias",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append((self.emb(x[:, t]) * 0.5 + self.b).tanh())
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.b = nn.Parameter(torch.rand(6))
        """,
    ),
    Case(
        "three dimensions",
        WHOLE,
        "torch.randint(0, 50, (4, 3, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(2)):
                rows.append(self.emb(x[:, :, t]))
            return torch.stack(rows, 2)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "one dimension",
        WHOLE,
        "torch.randint(0, 50, (24,))",
        """
        def forward(self, x):
            rows = []
            for t in range(len(x)):
                rows.append(self.emb(x[t]))
            return torch.stack(rows)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "functional look-up",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(F.embedding(x[:, t], self.w))
            return torch.stack(rows, 1)
        """,
        """
        self.w = nn.Parameter(torch.rand(50, 6))
        """,
    ),
    Case(
        "one table per column",
        EXPLAINED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t, table in enumerate(self.tables):
                rows.append(table(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.tables = nn.ModuleList(nn.Embedding(50, 6) for _ in range(24))
        """,
    ),
    Case(
        "decoding in place",
        SILENT,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            x = x.clone()
            for t in range(x.size(1) - 1):
                x[:, t + 1] = self.emb(x[:, t]).argmax(-1)
            return x
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "temporary read after the loop",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                e = self.lin(self.emb(x[:, t]))
                rows.append(e)
            return torch.stack(rows, 1) + e.unsqueeze(1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "list read in another way",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]))
            return rows[-1] + torch.stack(rows, 1).sum(1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "comprehension kept as a list",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = [self.emb(x[:, t]) for t in range(x.size(1))]
            h = rows[0]
            for r in rows:
                h = torch.tanh(h + r)
            return h
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "leaves early",
        EXPLAINED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                if t > 9:
                    break
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "dropout",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.drop(self.emb(x[:, t])))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.3)
        """,
    ),
    Case(
        "view of what is written",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            out = torch.zeros(x.size(0), x.size(1), 6)
            alias = out.view(-1, 6)
            for t in range(x.size(1)):
                out[:, t, :] = self.emb(x[:, t])
            return alias
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "reads a view of what is written",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            out = torch.zeros(x.size(0), x.size(1), 6)
            alias = out[:, 0]
            for t in range(x.size(1)):
                out[:, t, :] = self.emb(x[:, t]) + alias
            return out
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "where with a boolean mask",
        WHOLE,
        "torch.randn(3, 5, 20), torch.rand(3, 20) > 0.5",
        """
        def forward(self, s, m):
            s = s * 2
            for j in range(m.size(1)):
                s[:, :, j] = torch.where(m[:, j, None], s[:, :, j], -1e9)
            return s.softmax(-1)
        """,
    ),
    Case(
        "masked_fill",
        WHOLE,
        "torch.randn(3, 5, 20), torch.rand(3, 20) > 0.5",
        """
        def forward(self, s, m):
            s = s * 2
            for j in range(m.size(1)):
                s[:, :, j] = s[:, :, j].masked_fill(m[:, j].unsqueeze(1), float("-inf"))
            return s.exp()
        """,
    ),
    Case(
        "masked_fill_ on a slice",
        WHOLE,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            for j in range(m.size(-1)):
                s[..., j].masked_fill_(m[:, j].view(-1, 1) == 0, 0.0)
            return s
        """,
    ),
    Case(
        "row by row",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randint(0, 2, (12, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            for b in range(s.size(0)):
                s[b] = s[b].masked_fill(m[b] == 0, -1e4)
            return s
        """,
    ),
    Case(
        "scaled above a limit",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randn(12)",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > m[b], s[b] * self.k, s[b]))
            return torch.stack(out)
        """,
        """
        self.k = 1.5
        """,
    ),
    Case(
        "a vector per sample",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randn(12, 5)",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > m[b][:, None], s[b], m[b].unsqueeze(-1)))
            return torch.stack(out, dim=1)
        """,
    ),
    Case(
        "the same limit for all",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randn(5, 20)",
        """
        def forward(self, s, thr):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > thr, s[b], torch.zeros_like(s[b])))
            return torch.stack(out, dim=0)
        """,
    ),
    Case(
        "counter compared, stacked",
        WHOLE,
        "torch.randn(4, 20, 3), torch.randint(1, 20, (4,))",
        """
        def forward(self, s, n):
            keep = []
            for t in range(s.size(1)):
                keep.append(t < n)
            return s * torch.stack(keep, 1).unsqueeze(-1)
        """,
    ),
    Case(
        "counter compared, written",
        WHOLE,
        "torch.randn(4, 20, 3), torch.randint(1, 20, (4,))",
        """
        def forward(self, s, n):
            keep = torch.zeros(s.size(0), s.size(1), dtype=torch.bool)
            for t in range(s.size(1)):
                keep[:, t] = n > t
            return s * keep.unsqueeze(-1)
        """,
    ),
    Case(
        "from a length on",
        WHOLE,
        "torch.randn(14, 20, 3), torch.randint(1, 20, (14,))",
        """
        def forward(self, s, n):
            keep = torch.ones(s.size(0), s.size(1))
            for i, l in enumerate(n):
                keep[i, l:] = 0
            return s * keep.unsqueeze(-1)
        """,
    ),
    Case(
        "from a length on, last dimension",
        WHOLE,
        "torch.randn(14, 3, 20), torch.randint(1, 20, (14,))",
        """
        def forward(self, s, n):
            s = s.clone()
            for i in range(len(n)):
                s[i, :, n[i]:] = float("-inf")
            return s.softmax(-1)
        """,
    ),
    Case(
        "lengths in a list",
        WHOLE,
        "torch.randn(14, 20, 3), torch.randint(1, 20, (14,))",
        """
        def forward(self, s, n):
            keep = torch.ones(s.size(0), s.size(1))
            for i, l in enumerate(n.tolist()):
                keep[i, l:] = 0
            return s * keep.unsqueeze(-1)
        """,
    ),
    Case(
        "carried value",
        SILENT,
        "torch.randn(4, 20)",
        """
        def forward(self, s):
            c = torch.zeros_like(s[:, 0])
            out = []
            for t in range(s.size(1)):
                c = torch.where(s[:, t] > 0, s[:, t], c)
                out.append(c)
            return torch.stack(out, 1)
        """,
    ),
    Case(
        "reads the slice before",
        SILENT,
        "torch.randn(4, 20)",
        """
        def forward(self, s):
            s = s.clone()
            for t in range(1, s.size(1)):
                s[:, t] = torch.where(s[:, t] > 0, s[:, t], s[:, t - 1])
            return s
        """,
    ),
    Case(
        "mask read after the loop",
        EXPLAINED,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            for j in range(m.size(1)):
                keep = m[:, j].view(-1, 1) > 0
                s[:, :, j] = torch.where(keep, s[:, :, j], -1.0)
            return s * keep.unsqueeze(-1)
        """,
    ),
    Case(
        "branches per row",
        EXPLAINED,
        "torch.randn(12, 5), torch.randn(12)",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                if s[b].sum() > 0:
                    out.append(torch.where(s[b] > 0, s[b], m[b]))
                else:
                    out.append(s[b])
            return torch.stack(out)
        """,
    ),
    Case(
        "zip of unequal lengths",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randn(15)",
        """
        def forward(self, s, m):
            out = []
            for row, limit in zip(s, m):
                out.append(torch.where(row > limit, limit, row))
            return torch.stack(out)
        """,
    ),
    Case(
        "elements",
        WHOLE,
        "torch.randn(40)",
        """
        def forward(self, s):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > 0.5, s[b], s[b] * 2))
            return torch.stack(out)
        """,
    ),
    Case(
        "reads a transposed view",
        SILENT,
        "torch.randn(30, 20)",
        """
        def forward(self, s):
            s = s + 0
            view = s.transpose(0, 1)
            for j in range(s.size(1)):
                s[:, j] = torch.where(view[j] > 0, s[:, j], 0.0)
            return s
        """,
    ),
    Case(
        "invariant of higher rank",
        WHOLE,
        "torch.randn(12, 20)",
        """
        def forward(self, s):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > 0, s[b], self.g))
            return torch.stack(out)
        """,
        """
        self.g = nn.Parameter(torch.rand(4, 5, 20))
        """,
    ),
    Case(
        "different ranks",
        WHOLE,
        "torch.randn(12, 20), torch.randn(12, 4, 5, 20)",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(m[b] > 0, m[b] * s[b], 0.0))
            return torch.stack(out)
        """,
    ),
    Case(
        "augmented slice",
        WHOLE,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            for j in range(m.size(1)):
                s[:, :, j] += (m[:, j] == 0).unsqueeze(1) * -1e4
            return s
        """,
    ),
    Case(
        "two slices written",
        WHOLE,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20)), torch.zeros(3, 20)",
        """
        def forward(self, s, m, k):
            s = s + 0
            k = k + 0
            for j in range(m.size(1)):
                col = s[:, :, j]
                s[:, :, j] = torch.where(m[:, j, None] > 0, col, -1.0)
                k[:, j] = m[:, j] > 0
            return s.sum(1) + k
        """,
    ),
    Case(
        "read before it is written",
        WHOLE,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            old = []
            for j in range(m.size(1)):
                old.append(s[:, :, j] * 2)
                s[:, :, j] = torch.where(m[:, j, None] > 0, s[:, :, j], -1.0)
            return torch.stack(old, 2) + s
        """,
    ),
    Case(
        "keeps a view of what is written",
        EXPLAINED,
        "torch.randn(3, 5, 20), torch.randint(0, 2, (3, 20))",
        """
        def forward(self, s, m):
            s = s + 0
            old = []
            for j in range(m.size(1)):
                old.append(s[:, :, j])
                s[:, :, j] = torch.where(m[:, j, None] > 0, s[:, :, j], -1.0)
            return torch.stack(old, 2) + s
        """,
    ),
    Case(
        "row written back",
        WHOLE,
        "torch.randn(12, 20), torch.rand(12, 20) > 0.5",
        """
        def forward(self, s, m):
            s = s + 0
            for i, row in enumerate(s):
                s[i] = row.masked_fill(m[i], 0.0)
            return s
        """,
    ),
    Case(
        "row against column",
        SILENT,
        "torch.randn(12, 12)",
        """
        def forward(self, s):
            s = s + 0
            for i, row in enumerate(s):
                s[:, i] = torch.where(row > 0, s[:, i], 0.0)
            return s
        """,
    ),
    Case(
        "chained index with a length",
        WHOLE,
        "torch.randn(12, 20), torch.randint(1, 20, (12,))",
        """
        def forward(self, s, n):
            k = torch.zeros(s.size(0), s.size(1))
            for b in range(s.size(0)):
                k[b][: n[b]] = 1
            return s * k
        """,
    ),
    Case(
        "arange compared with each length",
        WHOLE,
        "torch.randn(12, 20), torch.randint(1, 20, (12,))",
        """
        def forward(self, s, n):
            T = s.size(1)
            k = [torch.arange(T) < l for l in n]
            return s * torch.stack(k)
        """,
    ),
    Case(
        "name bound again by the join",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            n = x.size(1)
            rows = []
            for t in range(n):
                rows.append(self.emb(x[:, t]))
            x = torch.stack(rows, 1)
            return x * 2
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "name bound again before the loop",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            n = x.size(1)
            x = torch.cat([x, x], 1)
            rows = []
            for t in range(n):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "count of another tensor",
        WHOLE,
        "torch.randint(0, 50, (4, 24)), torch.zeros(2, 7)",
        """
        def forward(self, x, y):
            rows = []
            for t in range(y.size(1)):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "layout needed after the join",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows).view(-1, 6)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "inside another loop",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            total = 0
            for k in range(3):
                rows = []
                for t in range(x.size(1)):
                    rows.append(self.emb(x[:, t]) * k)
                total = total + torch.stack(rows, 1)
            return total
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "inside a loop that carries",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            for k in range(3):
                rows = []
                for t in range(x.size(1)):
                    rows.append(self.emb(x[:, t]))
                x = (x + torch.stack(rows, 1).sum(-1).abs().long()) % 50
            return x
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "counter read after the loop",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1) * t
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "table changed in the loop",
        SILENT,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                with torch.no_grad():
                    self.emb.weight.mul_(0.99)
                rows.append(self.emb(x[:, t]))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        """,
    ),
    Case(
        "number on the left",
        WHOLE,
        "torch.randn(12, 5, 20)",
        """
        def forward(self, s):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > 0, self.k * s[b], 1.0 - s[b]))
            return torch.stack(out)
        """,
        """
        self.k = 1.5
        """,
    ),
    Case(
        "tensor on the left",
        WHOLE,
        "torch.randn(12, 5, 20)",
        """
        def forward(self, s):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(s[b] > 0, self.g * s[b], s[b]))
            return torch.stack(out, 1)
        """,
        """
        self.g = nn.Parameter(torch.rand(20))
        """,
    ),
    Case(
        "all sizes the same",
        WHOLE,
        "torch.randn(8, 8, 8)",
        """
        def forward(self, s):
            out = []
            for b in range(s.size(2)):
                out.append(torch.where(s[:, :, b] > self.g, s[:, :, b], self.g[b]))
            return torch.stack(out, 0)
        """,
        """
        self.g = nn.Parameter(torch.rand(8, 8))
        """,
    ),
    Case(
        "other dimensions indexed",
        WHOLE,
        "torch.randn(12, 5, 20), torch.randn(12, 3)",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                out.append(torch.where(m[b, -1] > 0, s[b, 0], s[b, -1]))
            return torch.stack(out)
        """,
    ),
    Case(
        "dimensions of size one",
        WHOLE,
        "torch.randn(12, 5, 20, 3), torch.rand(12, 20) > 0.5",
        """
        def forward(self, s, m):
            out = []
            for b in range(s.size(0)):
                out.append(s[b].masked_fill(m[b].unsqueeze(0).unsqueeze(-1), 0.0).unsqueeze(0))
            return torch.cat(out, dim=0)
        """,
    ),
    Case(
        "normalised over the last dimension",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.ln(self.emb(x[:, t])))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.ln = nn.LayerNorm(6)
        """,
    ),
    Case(
        "normalised over two dimensions",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.ln(self.emb(x[:, t])))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.lin = nn.Linear(6, 6)
        self.ln = nn.LayerNorm((4, 6))
        """,
    ),
    Case(
        "in place by position",
        SILENT,
        "torch.randn(12, 20), torch.rand(12, 20) > 0.5",
        """
        def forward(self, s, m):
            s = s.clone()
            out = []
            for b in range(s.size(0)):
                out.append(F.relu(s[b], True).masked_fill(m[b], 0.0))
            return torch.stack(out) + s
        """,
    ),
    Case(
        "layers in sequence",
        WHOLE,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.seq(self.emb(x[:, t])))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.seq = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 3))
        """,
    ),
    Case(
        "statistics per round",
        HOISTED,
        "torch.randint(0, 50, (4, 24))",
        """
        def forward(self, x):
            rows = []
            for t in range(x.size(1)):
                rows.append(self.bn(self.emb(x[:, t])))
            return torch.stack(rows, 1)
        """,
        """
        self.emb = nn.Embedding(50, 6)
        self.bn = nn.BatchNorm1d(6)
        """,
    ),
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[SourceText, dict[str, Match]]:
    """The program, and the finding in each class."""
    folder = tmp_path_factory.mktemp("vectorise")
    source = SourceText(str(folder / "loops.py"), program(CASES))
    found = found_by_class(CASES, source, harness.measurer(folder)(source), ("embedding-in-loop", "masking-in-loop"))
    return source, {name: matches[-1] for name, matches in found.items() if matches}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_loop(case: Case, measured: tuple[SourceText, dict[str, Match]]) -> None:
    source, findings = measured
    finding = findings.get(case.class_name)
    if finding is None:
        assert case.outcome == SILENT
        return
    fixes = finding.fixes
    assert (_TITLES[fixes[0].title] if fixes else EXPLAINED) == case.outcome, finding.message
    assert all(fix.applicability == "safe" for fix in fixes)
    if fixes:
        after = apply_edits(source, fixes[0].edits).text
        assert list(differences(source.text, after, case.class_name)) == []


def test_every_kind_of_outcome_is_covered() -> None:
    assert {case.outcome for case in CASES} == {WHOLE, HOISTED, EXPLAINED, SILENT}
