#!/usr/bin/env python3
"""make_data.py FOLDER: writes train.libsvm and test.libsvm, a small data set that is the same every time.

Sparse rows of unit length; of 500 columns, the first 40 decide the label, with some noise.
"""

import math
import random
import sys
from pathlib import Path

ROWS = {"train": (2000, 2), "test": (1000, 3)}  # rows, seed


def rows(count, seed):
    draw = random.Random(seed)
    truth = random.Random(1)
    weights = [truth.choice((-1, 1)) * truth.uniform(3, 9) for _ in range(40)]
    for _ in range(count):
        columns = sorted(draw.sample(range(1, 41), 6) + draw.sample(range(41, 501), 9))
        values = [draw.uniform(0.5, 1.5) for _ in columns]
        norm = math.sqrt(sum(v * v for v in values))
        margin = sum(weights[c - 1] * v / norm for c, v in zip(columns, values) if c <= 40)
        label = "+1" if draw.random() < 1 / (1 + math.exp(-margin)) else "-1"
        yield label + "".join(f" {c}:{v / norm:.6g}" for c, v in zip(columns, values)) + "\n"


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (count, seed) in ROWS.items():
        (folder / f"{name}.libsvm").write_text("".join(rows(count, seed)), encoding="ascii")


if __name__ == "__main__":
    main()
