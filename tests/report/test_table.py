"""The terminal report, as text."""

from __future__ import annotations

import dataclasses

import pytest

from forwardlens.model import SMALLER_FINDINGS, RunError, Verification
from forwardlens.report.record import Report
from forwardlens.report.table import render
from forwardlens.report.words import verification_text


def lines_of(report: Report) -> list[str]:
    return [line.plain.rstrip() for line in render(report)]


def test_the_whole_report(report: Report):
    assert "\n".join(lines_of(report)) == (
        """\
models/tagger one.py:build  target Tagger
torch 2.13.0, Python 3.11.4, cpu (Some CPU), 1 thread
8.00 ms a forward, 7.50 ms to 9.25 ms (p10 to p90 of 30 runs)
bound by dispatch: the time goes into Python and into starting operators

models/tagger one.py
     time   share   calls
                           13      def forward(self, ids):
                            ⋮
                           16          for t in range(ids.size(1)):
                           17              ids = ids
  6.80 ms    85 %     128  18              rows.append(self.word(ids[:, t]))  # one by one \U0001f525
                            ⋮
   480 µs   6.0 %       1  22          words = torch.stack(rows, dim=1)

   400 µs   5.0 %          belongs to no line

models/tagger one.py:18:25  warning  embedding-in-loop  75 %
    `self.word` ran 128 times, once per token: 75 % of this forward
    evidence: calls 128, operator aten::embedding, mean ms 0.0469, in loop yes
    models/tagger one.py:16: the loop
    fix: Look up all tokens at once [safe]
         tried: 8.0x faster (7.5x to 8.5x over 20 pairs), outputs equal
    --- a/models/tagger one.py
    +++ b/models/tagger one.py
    @@ -12,13 +12,9 @@

         def forward(self, ids):
             "Where the time goes \U0001f525"
    -        rows = []
    -        for t in range(ids.size(1)):
    -            ids = ids
    -            rows.append(self.word(ids[:, t]))  # one by one \U0001f525
    +        words = self.word(ids)  # one by one \U0001f525
             # a
             # b
             # c
    -        words = torch.stack(rows, dim=1)
    -        del rows
    +
             return self.cheap(words)
    fix: Use another layer [unsafe]
         it sums
         not tried
    --- a/models/tagger one.py
    +++ b/models/tagger one.py
    @@ -5,7 +5,7 @@
     class Tagger(nn.Module):
         def __init__(self):
             super().__init__()
    -        self.word = nn.Embedding(10, 4)
    +        self.word = nn.EmbeddingBag(10, 4)

         def cheap(self, x):
             return x + 1
    fix: Vectorise by hand [display]
         only you know the shapes

models/tagger one.py:3: rule x failed

outputs differ between runs"""
    )


def test_a_fix_that_was_refuted_is_told_without_its_diff(report: Report):
    finding = report.findings[0]
    refuted = dataclasses.replace(finding.fixes[0], verified=Verification("raises", message="IndexError: out of range"))
    without = dataclasses.replace(finding, fixes=())
    lines = lines_of(dataclasses.replace(report, findings=(without,), rejected=((finding, refuted),)))

    assert "    left out: Look up all tokens at once (tried: it fails (IndexError: out of range))" in lines
    assert not any(line.lstrip().startswith("---") for line in lines)


def test_how_many_findings_are_not_shown_stands_below_those_that_are(report: Report):
    file = report.findings[0].span.file
    note = RunError(SMALLER_FINDINGS, "and 5 smaller findings in this file", file, count=5)
    lines = lines_of(dataclasses.replace(report, errors=(note,)))
    assert lines[-1] == "models/tagger one.py: and 5 smaller findings in this file"


def test_device_time_gets_a_column_where_there_is_any(report: Report):
    profile = report.profile
    on_device = tuple(dataclasses.replace(line, device_ms=line.self_ms / 2) for line in profile.lines)
    lines = lines_of(dataclasses.replace(report, profile=dataclasses.replace(profile, lines=on_device)))

    assert "     time   share   calls    device" in lines
    assert any("6.80 ms    85 %     128   3.40 ms  18" in line for line in lines)


def test_a_finding_shows_its_line_however_cheap(report: Report):
    cheap = dataclasses.replace(
        report.findings[0], span=dataclasses.replace(report.findings[0].span, line=11, end_line=11)
    )

    assert any("11          return x + 1" in line for line in lines_of(dataclasses.replace(report, findings=(cheap,))))


def test_without_findings_it_says_so(report: Report):
    assert "No findings." in lines_of(dataclasses.replace(report, findings=()))


def test_a_file_that_does_not_parse_is_shown_without_its_functions(report: Report):
    (path, source), *_ = report.sources.items()
    broken = source.with_text(source.text.replace("import torch\n", "import\n", 1))
    lines = lines_of(dataclasses.replace(report, findings=(), sources={path: broken}))

    assert any("85 %     128  18" in line for line in lines)


def test_every_finding_is_told_without_its_source(report: Report):
    text = "\n".join(lines_of(dataclasses.replace(report, sources={})))

    assert "models/tagger one.py:18:25  warning" in text


@pytest.mark.parametrize(
    ("tried", "text"),
    [
        (None, "not tried"),
        (Verification("equal"), "tried: faster, outputs equal"),
        (Verification("equal", speedup=1.24), "tried: 1.24x faster, outputs equal"),
        (
            Verification("equal", speedup=33.4, speedup_low=30.2, speedup_high=35.9, pairs=1),
            "tried: 33x faster (30x to 36x over 1 pair), outputs equal",
        ),
        (
            Verification("differs", message="with masks all false: output: values differ by up to 0.00123"),
            "tried: outputs differ (with masks all false: output: values differ by up to 0.00123)",
        ),
        (Verification("differs"), "tried: outputs differ"),
        (Verification("raises"), "tried: it fails"),
        (Verification("slower", before_ms=1.0, after_ms=1.25), "tried: slower (1.00 ms before, 1.25 ms after)"),
        (
            Verification("no-gain", before_ms=2.0, after_ms=2.0),
            "tried: no measurable gain (2.00 ms before, 2.00 ms after)",
        ),
    ],
)
def test_what_came_of_a_fix_in_words(tried: Verification | None, text: str):
    assert verification_text(tried) == text
