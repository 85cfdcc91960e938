"""Options, commands and formats that are gone, with what to do instead: one clear message for a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["option", "command", "format", "name"]

_ON_A_NODE = (
    "measure on a node, `srun -N1 --exclusive --mem=0 cs_input_analyzer analyze ...`, or give the ratio of the speeds by "
    "--node-speed."
)
_BY_WAFER = "run `cs_input_analyzer wafer MODEL {option} ...`, and give the rate that it predicts by --demand."
_IN_FILE = "put `{line}` into the cluster file, or give it to csia.Cluster."

GONE: Mapping[Kind, Mapping[str, str]] = {
    "option": {
        "--analysis": "`inspect-run LOG_DIR --analysis RUN.json` says which launch would feed a monitored run.",
        "--calibrate": "give the measured rate by --demand, or run `cs_input_analyzer wafer MODEL --calibrate RATE ...`.",
        "--calibrate-samples-per-s": "give the measured rate by `demand`.",
        "--dtype": _BY_WAFER.format(option="--dtype NAME"),
        "--egress": "put `network_per_node: 12GB/s` into the cluster file: the link's limit follows from the bytes of a sample.",
        "--est-samples-per-sec": "monitors write no performance.json; `inspect-run LOG_DIR --analysis RUN.json` knows the demand.",
        "--host-history": "leave it out: what earlier runs saw of this host is always used.",
        "--memory-bandwidth": _IN_FILE.format(line="memory_bandwidth: 100GB/s"),
        "--memory-bandwidth-bytes-per-s-per-node": _IN_FILE.format(line="memory_bandwidth: 100GB/s"),
        "--network-bandwidth": _IN_FILE.format(line="network_per_node: 12GB/s"),
        "--network-bytes-per-s-per-node": _IN_FILE.format(line="network_per_node: 12GB/s"),
        "--no-host-history": "use --fresh, which looks at no earlier run.",
        "--node-reference": _ON_A_NODE,
        "--previous": "a plan is kept by itself while it feeds the accelerator; --fresh plans anew.",
        "--smoothing": "leave it out: Rate is 0.6 of the local rate and 0.4 of the Rate before, as in model-zoo runs.",
        "--soak": "run your script under `memray run --native` to see what grows; CSI213 names buffers that will not fit a node.",
        "--system-file": "the wafers are CS-1, CS-2 and CS-3; give the rate of another one by --demand.",
        "--systems": _BY_WAFER.format(option="--systems N"),
        "--table": "--format csv writes a row for each worker, and --format json holds every other record.",
        "--threads-per-core": _IN_FILE.format(line="threads_per_core: 2"),
    },
    "command": {"reference": _ON_A_NODE},
    "format": {
        "log": "use --format console with --full to read the findings, or --format json in a script.",
        "summary": "use --format json; `verdict`, `supply`, `recommendation` and `findings` hold the answer.",
    },
    "name": {
        "recommend_for": "csia.analyze(function, ...) measures in processes of its own and plans a launch; csia.tuning(dataset) "
        "says what is slow in a dataset.",
    },
}
"""The replacement, by the word that users type: `--soak`, `reference`, `log`."""


def gone_message(kind: Kind, word: str) -> str | None:
    """Return "`WORD` is gone: ADVICE", or None if the word is not in the table. A Python keyword counts as its option."""
    typed = f"--{word.replace('_', '-')}" if kind == "option" and not word.startswith("-") else word
    advice = GONE[kind].get(typed)
    return None if advice is None else f"`{word}` is gone: {advice}"
