"""Speeds of CPU models from public scores of whole servers: prints what the table of `machines/cpu_speeds.yaml` is made of.

The scores are those that sites of the HEPiX forum publish of the HEPscore23 benchmark: programs of particle physics that keep every
CPU of a server busy (https://w3.hepix.org/benchmarking/scores_HS23.html, the file `HS23scores.csv`).

python -m benchmarks.cpu_speeds HS23scores.csv --table cs_input_analyzer/machines/cpu_speeds.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.paired import show
from cs_input_analyzer.machines.node_speed import model_of

# Rows of one model that are further apart are of machines that do not run alike: which of them is right is not known.
MOST_APART_RATIO = 1.4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    rows = pd.read_csv(given.scores)
    rows["cores"] = rows["# Sockets"] * rows["Cores/Socket"]
    rows["model"] = rows["CPU"].map(model_of)
    # A machine of which some CPUs were left out says less than a whole one.
    whole = rows[
        rows["model"].str.contains("EPYC|XEON|NEOVERSE", na=False) & (rows["Ncores"] == rows["cores"] * rows["Threads/core"])
    ]
    per_core = whole.assign(score=whole["Score"] / whole["cores"])
    both = per_core.pivot_table(index="model", columns="Threads/core", values="score", aggfunc="median").dropna()
    gains = both[2] / both[1] - 1
    middle = float(gains.median())
    scores = per_core["score"] / np.where(per_core["Threads/core"] == 2, 1 + middle, 1)
    by_model = scores.groupby(per_core["model"])
    speeds = by_model.median()[by_model.max() <= MOST_APART_RATIO * by_model.min()].round(1)
    apart = np.log(scores / by_model.transform("median"))
    several = per_core.groupby("model")["Site"].transform("nunique") > 1
    low, high = gains.quantile([0.05, 0.95])
    figures = [
        ("models", f"{len(speeds)}"),
        ("gain of a core by its second thread", f"{middle:.3f}, middle 90 % {low:.3f} to {high:.3f}, {len(gains)} models"),
        ("one model at several sites, standard deviation", f"{apart[several].std():.3f} ({several.sum()} rows)"),
        ("models beside each other, standard deviation of the logarithm", f"{np.log(speeds).std():.2f}"),
    ]
    show("Speed of one core, all cores busy", ("figure", "value"), figures)
    if given.table is not None:
        lines = given.table.read_text().splitlines()
        head = [line for line in lines if line.startswith("#")]
        body = [f"{model}: {speed}" for model, speed in speeds.items()]
        given.table.write_text("\n".join([*head, *body]) + "\n")


if __name__ == "__main__":
    main()
