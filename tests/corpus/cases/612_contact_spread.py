"""C612 (after epidemic models on contact networks): daily mean-field infection pressure over a stored 0/1 contact matrix."""
import torch
from torch import nn

expected = {
    "case": "C612",
    "polarity": "positive",
    "kind": "repeated_dtype_cast",
    "hot_lines": [31],
    "fix": "hoist_cast",
    "auto_fix_safe": True,
    "why": "neither the contact matrix nor the dtype of the state changes over the days, so one cast before the loop gives the same values",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 2.07,
}


class ContactSpread(nn.Module):
    def __init__(self, people=600, days=12):
        super().__init__()
        self.days = days
        self.beta = nn.Parameter(torch.tensor(-3.0, dtype=torch.float64))
        self.recover = nn.Parameter(torch.tensor(-2.0, dtype=torch.float64))
        met = torch.rand(people, people) < 0.02
        self.register_buffer("contacts", met.to(torch.uint8))

    def forward(self, infected):
        susceptible = 1 - infected
        curve = [infected.sum(dim=0)]
        for day in range(1, self.days + 1):
            exposure = self.contacts.type_as(infected) @ infected  # HOT
            risk = -torch.expm1(-self.beta.exp() * exposure)
            fresh = susceptible * risk
            susceptible = susceptible - fresh
            infected = infected * (1 - self.recover.sigmoid()) + fresh
            if day % 2 == 0:
                curve.append(infected.sum(dim=0))
        return torch.stack(curve), infected


class ContactSpreadFixed(ContactSpread):
    def forward(self, infected):
        susceptible = 1 - infected
        curve = [infected.sum(dim=0)]
        contacts = self.contacts.type_as(infected)
        for day in range(1, self.days + 1):
            exposure = contacts @ infected
            risk = -torch.expm1(-self.beta.exp() * exposure)
            fresh = susceptible * risk
            susceptible = susceptible - fresh
            infected = infected * (1 - self.recover.sigmoid()) + fresh
            if day % 2 == 0:
                curve.append(infected.sum(dim=0))
        return torch.stack(curve), infected


def build():
    torch.manual_seed(0)
    return ContactSpread(), (torch.rand(600, 4, dtype=torch.float64) * 0.1,)


def build_fixed():
    slow, inputs = build()
    fast = ContactSpreadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
