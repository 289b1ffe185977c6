"""C828 (after BindsNET/bindsnet#310, monitor.py): spikes and voltages are recorded with one torch.cat per simulation step."""
import torch
import torch.nn as nn

expected = {
    "case": "C828",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [39, 40],
    "fix": "append_then_stack_once",
    "auto_fix_safe": True,
    "why": "the recordings are only written while the loop runs; the neuron state lives in v and s",
    "hot_share_cpu": 0.37,
    "speedup_cpu": 2.16,
}


class LIFLayer(nn.Module):
    def __init__(self, n_in=100, n_out=64, decay=0.95, thresh=1.0):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out, bias=False)
        self.decay, self.thresh = decay, thresh

    def lif_step(self, current, v, s):
        v = self.decay * v * (1 - s) + current
        s = (v >= self.thresh).float()
        return v, s

    def forward(self, spikes_in):
        time, batch, _ = spikes_in.shape
        v = torch.zeros(batch, self.fc.out_features, device=spikes_in.device)
        s = torch.zeros_like(v)
        currents = self.fc(spikes_in)

        spike_rec = torch.zeros(0, *v.shape, device=v.device)
        volt_rec = torch.zeros(0, *v.shape, device=v.device)
        for t in range(time):
            v, s = self.lif_step(currents[t], v, s)
            spike_rec = torch.cat((spike_rec, s.unsqueeze(0)), 0)  # HOT
            volt_rec = torch.cat((volt_rec, v.unsqueeze(0)), 0)  # HOT
        return spike_rec.sum(0), spike_rec, volt_rec


class LIFLayerFixed(LIFLayer):
    def forward(self, spikes_in):
        time, batch, _ = spikes_in.shape
        v = torch.zeros(batch, self.fc.out_features, device=spikes_in.device)
        s = torch.zeros_like(v)
        currents = self.fc(spikes_in)
        spike_rec, volt_rec = [], []
        for t in range(time):
            v, s = self.lif_step(currents[t], v, s)
            spike_rec.append(s)
            volt_rec.append(v)
        spike_rec, volt_rec = torch.stack(spike_rec), torch.stack(volt_rec)
        return spike_rec.sum(0), spike_rec, volt_rec


def build():
    torch.manual_seed(0)
    return LIFLayer(), ((torch.rand(150, 16, 100) < 0.3).float(),)


def build_fixed():
    slow, inputs = build()
    fast = LIFLayerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
