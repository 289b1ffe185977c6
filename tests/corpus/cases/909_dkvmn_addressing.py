"""C909 (after tianlinyang/DKVMN and dxywill/pytorch_dkvmn model.py): key addressing and write gates projected inside the time loop."""
import torch
from torch import nn

expected = {
    "case": "C909",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [29, 32, 39, 41],
    "fix": "hoist_projections",
    "auto_fix_safe": True,
    "why": "attention, erase and add only read the inputs and fixed weights, never the memory: once for all steps, then index",
    "hot_share_cpu": 0.58,
    "speedup_cpu": 2.16,
}


class DKVMN(nn.Module):
    def __init__(self, n_question=110, memory_size=20, key_dim=50, value_dim=64):
        super().__init__()
        self.q_embed = nn.Embedding(n_question + 1, key_dim, padding_idx=0)
        self.qa_embed = nn.Embedding(2 * n_question + 1, value_dim, padding_idx=0)
        self.memory_key = nn.Parameter(torch.randn(memory_size, key_dim) * 0.1)
        self.init_memory_value = nn.Parameter(torch.randn(memory_size, value_dim) * 0.1)
        self.erase, self.add = nn.Linear(value_dim, value_dim), nn.Linear(value_dim, value_dim)
        self.predict_linear = nn.Linear(value_dim + key_dim, 1)

    def attention(self, q):
        return torch.softmax(torch.matmul(q, self.memory_key.t()), dim=-1)  # HOT

    def write_gates(self, qa):
        return torch.sigmoid(self.erase(qa)), torch.tanh(self.add(qa))  # HOT

    def forward(self, q_data, qa_data):
        q_embed_data, qa_embed_data = self.q_embed(q_data), self.qa_embed(qa_data)
        memory = self.init_memory_value.expand(q_data.size(0), -1, -1)
        value_read_content_l = []
        for i in range(q_data.size(1)):
            w = self.attention(q_embed_data[:, i]).unsqueeze(-1)  # HOT
            value_read_content_l.append((w * memory).sum(1))
            erase, add = self.write_gates(qa_embed_data[:, i])  # HOT
            memory = memory * (1 - w * erase.unsqueeze(1)) + w * add.unsqueeze(1)
        read = torch.stack(value_read_content_l, 1)
        return self.predict_linear(torch.cat([read, q_embed_data], 2)).squeeze(-1)


class DKVMNFixed(DKVMN):
    def forward(self, q_data, qa_data):
        q_embed_data, qa_embed_data = self.q_embed(q_data), self.qa_embed(qa_data)
        memory = self.init_memory_value.expand(q_data.size(0), -1, -1)
        ws = self.attention(q_embed_data).unsqueeze(-1).unbind(1)
        erases, adds = (g.unsqueeze(2).unbind(1) for g in self.write_gates(qa_embed_data))
        value_read_content_l = []
        for w, erase, add in zip(ws, erases, adds):
            value_read_content_l.append((w * memory).sum(1))
            memory = memory * (1 - w * erase) + w * add
        read = torch.stack(value_read_content_l, 1)
        return self.predict_linear(torch.cat([read, q_embed_data], 2)).squeeze(-1)


def build():
    torch.manual_seed(0)
    return DKVMN(), (torch.randint(1, 111, (4, 60)), torch.randint(1, 221, (4, 60)))


def build_fixed():
    slow, inputs = build()
    fast = DKVMNFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
