"""The sample in the size of a distilled BERT."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "samples"))
import slow_bert


def build():
    return slow_bert.build(layers=6, dim=768, heads=12)
