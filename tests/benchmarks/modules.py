"""Are the costs of calls right? Modules timed by hooks, with nothing else in the way, are the truth."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.benchmarks.line_shares import line_profiler_seconds
from tests.benchmarks.programs import SAMPLES, SLOW_BERT, profiled
from tests.benchmarks.table import Table

from forwardlens.model import Profile
from forwardlens.report.labels import line_costs

# A call in the sample's text, the modules it calls, and how often in one forward.
CALLS = {
    "x = self.embeddings(input_ids)": "embeddings",
    "x = block(x, mask)": "blocks.0 blocks.1",
    "x = self.attention_norm(x + self.attention(x, mask))": "blocks.0.attention blocks.1.attention "
    "blocks.0.attention_norm blocks.1.attention_norm",
}
_HOOKS = f"""
import json, statistics, sys, time
sys.path.insert(0, {str(SAMPLES)!r})
import slow_bert
model, args = slow_bert.build()
wanted, shares = json.loads(sys.argv[1]), {{}}
for text, names in wanted.items():
    modules, spent = [model.get_submodule(name) for name in names.split()], []
    def before(*_):
        spent.append(-time.perf_counter())
    def after(*_):
        spent[-1] += time.perf_counter()
    handles = [h for m in modules for h in (m.register_forward_pre_hook(before), m.register_forward_hook(after))]
    for _ in range(10):
        model(*args)
    ratios = []
    for _ in range(100):
        spent.clear()
        start = time.perf_counter()
        output = model(*args)
        ratios.append(sum(spent) / (time.perf_counter() - start))
        del output  # after the clock is read: freeing its graph is not the forward's time
    for handle in handles:
        handle.remove()
    shares[text] = statistics.median(ratios)
print(json.dumps(shares))
"""


def run() -> Table:
    done = subprocess.run([sys.executable, "-c", _HOOKS, json.dumps(CALLS)], capture_output=True, text=True, check=True)
    truth: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    profile = profiled(SLOW_BERT)
    seconds, whole = line_profiler_seconds(SLOW_BERT, [str(SLOW_BERT.file)])
    source = SLOW_BERT.file.read_text(encoding="utf-8").splitlines()
    rows: list[tuple[object, ...]] = []
    ours_off = theirs_off = 0.0
    for text, share in truth.items():
        line = next(number for number, found in enumerate(source, 1) if found.strip() == text or text in found)
        ours, theirs = _total_share(profile, line), seconds[str(SLOW_BERT.file), line] / whole
        ours_off, theirs_off = max(ours_off, abs(ours - share)), max(theirs_off, abs(theirs - share))
        rows.append((f"`{text}`", f"{share:.1%}", f"{ours:.1%}", f"{theirs:.1%}"))
    return Table(
        "Lines that call modules, against the modules timed by hooks",
        "within 3 points of the truth",
        f"ForwardLens at most {100 * ours_off:.1f} points off, line_profiler {100 * theirs_off:.1f}",
        ("line", "hooks", "ForwardLens", "line_profiler"),
        rows,
    )


def _total_share(profile: Profile, line: int) -> float:
    return next(cost.total_share for cost in line_costs(profile, str(SLOW_BERT.file)) if cost.line == line)
