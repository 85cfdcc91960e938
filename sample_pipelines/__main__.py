"""`python -m sample_pipelines NAME FOLDER [SCALE] [SEED]`: writes a sample's data, and prints where its params are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_pipelines import write_sample


def main(arguments: Sequence[str]) -> int:
    if not 2 <= len(arguments) <= 4:
        print(__doc__, file=sys.stderr)
        return 2
    scale = float(arguments[2]) if len(arguments) > 2 else 1.0
    seed = int(arguments[3]) if len(arguments) > 3 else 0
    print(write_sample(arguments[0], arguments[1], scale=scale, seed=seed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
