"""C807 (after BrianPulfer/PapersReimplementations vit_torch.py, MyMSA): a loop over sequences around a loop over heads."""
import torch
import torch.nn as nn

expected = {
    "case": "C807",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [35, 36, 37, 38, 39],
    "fix": "batch_the_sequences",
    "auto_fix_safe": True,
    "why": "the linear maps, the matmul and the softmax broadcast over the batch; the loop over sequences goes, parameters stay",
    "hot_share_cpu": 0.93,
    "speedup_cpu": 7.50,
}


class MyMSA(nn.Module):
    def __init__(self, d=32, n_heads=4):
        super(MyMSA, self).__init__()
        assert d % n_heads == 0, f"Can't divide dimension {d} into {n_heads} heads"
        self.n_heads = n_heads
        self.d_head = d // n_heads
        self.q_mappings = nn.ModuleList([nn.Linear(self.d_head, self.d_head) for _ in range(n_heads)])
        self.k_mappings = nn.ModuleList([nn.Linear(self.d_head, self.d_head) for _ in range(n_heads)])
        self.v_mappings = nn.ModuleList([nn.Linear(self.d_head, self.d_head) for _ in range(n_heads)])
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, sequences):
        # (N, seq_length, token_dim) -> (N, seq_length, n_heads, token_dim / n_heads) -> (N, seq_length, item_dim)
        result = []
        for sequence in sequences:
            seq_result = []
            for head in range(self.n_heads):
                seq = sequence[:, head * self.d_head: (head + 1) * self.d_head]  # HOT
                q, k, v = self.q_mappings[head](seq), self.k_mappings[head](seq), self.v_mappings[head](seq)  # HOT
                attention = self.softmax(q @ k.T / (self.d_head ** 0.5))  # HOT
                seq_result.append(attention @ v)  # HOT
            result.append(torch.hstack(seq_result))  # HOT
        return torch.cat([torch.unsqueeze(r, dim=0) for r in result])


class MyMSAFixed(MyMSA):
    def forward(self, sequences):
        result = []
        for head, seq in enumerate(sequences.chunk(self.n_heads, dim=-1)):
            q, k, v = self.q_mappings[head](seq), self.k_mappings[head](seq), self.v_mappings[head](seq)
            attention = self.softmax(q @ k.transpose(-2, -1) / (self.d_head ** 0.5))
            result.append(attention @ v)
        return torch.cat(result, dim=-1)


def build():
    torch.manual_seed(0)
    return MyMSA(), (torch.randn(16, 17, 32),)


def build_fixed():
    slow, inputs = build()
    fast = MyMSAFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
