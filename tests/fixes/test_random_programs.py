"""No fix that is offered as safe gives something else, on programs that nobody wrote a rule for.

`make programs` runs thousands; a few of the same are always run. A fix is judged by the rules alone: it is compared
with the original here, on many inputs, and not by the trial that comes before a user sees it.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tests.fixes import grammar, programs

pytestmark = pytest.mark.torch

FIRST = int(os.environ.get("FORWARDLENS_FIRST_PROGRAM", "0"))
COUNT = int(os.environ.get("FORWARDLENS_PROGRAMS", "24"))
BATCH = 48


def test_no_safe_fix_of_a_random_program_gives_something_else(tmp_path: Path) -> None:
    warnings.simplefilter("ignore")
    wrong: list[programs.Wrong] = []
    offered: Counter[str] = Counter()
    ran = 0
    for first in range(FIRST, FIRST + COUNT, BATCH):
        seeds = range(first, min(first + BATCH, FIRST + COUNT))
        texts = {f"p{seed}": text for seed in seeds if programs.runs(text := grammar.program(seed))}
        profile, sources = programs.profiled(tmp_path, texts)
        for source in sources.values():
            found = programs.findings(profile, source)
            offered.update(finding.rule for finding, _ in programs.safe_fixes(found))
            for one in programs.wrong_fixes(source, found):
                wrong.append(one)
                print(f"{Path(source.path).stem}: {one}", flush=True)
        ran += len(sources)
        print(f"{ran} programs, {offered.total()} safe fixes, {len(wrong)} wrong", flush=True)
    print(", ".join(f"{rule} {count}" for rule, count in offered.most_common()))
    assert [str(programs.shrunk(tmp_path, one)) for one in wrong[:3]] == []
    # Programs without fixes would prove nothing.
    assert ran >= 0.9 * COUNT
    assert offered.total() >= 0.3 * COUNT


BEFORE = "        return torch.stack([x[:, i] * mask[:, i, None] for i in range(x.size(1))], dim=1)\n"


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        ("        return x * mask.unsqueeze(-1)\n", ""),
        ("        return torch.nan_to_num(x) * mask.unsqueeze(-1)\n", "one nan and infinity: value 0"),
        ("        return torch.stack([x[:, i] * mask[:, i, None] for i in range(5)], dim=1)\n", "other sizes: raises"),
        ("        return x.mul_(mask.unsqueeze(-1))\n", "plain: value"),
        ("        return (x * mask.unsqueeze(-1)).float()\n", "plain: value 0"),
        ("        return (x * mask.unsqueeze(-1),)\n", "plain: 31 values became 33"),
    ],
)
def test_a_wrong_fix_would_be_seen(after: str, seen: str) -> None:
    texts = [grammar.whole(body) for body in (BEFORE, after)]
    before, changed = (programs.results(text, programs.Comparison(gradients=True)) for text in texts)
    found = programs.difference(before, changed)
    assert found.startswith(seen) if seen else found == ""


def test_the_same_seed_gives_the_same_program() -> None:
    assert [grammar.program(seed) for seed in range(20)] == [grammar.program(seed) for seed in range(20)]
    assert len({grammar.program(seed) for seed in range(200)}) > 190
