"""Options, commands and formats that are gone, with what to do instead: one clear message for a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["option", "command", "format"]

GONE: Mapping[Kind, Mapping[str, str]] = {
    "option": {
        "--egress": "give --network-bandwidth: the link's limit follows from the bytes of a sample; leave --headroom for sending.",
        "--soak": "run your script under `memray run --native` to see what grows; CSI213 names buffers that will not fit a node.",
        "--system-file": "the wafers are CS-1, CS-2 and CS-3; give the rate of another one by --demand.",
        "--table": "--format csv writes a row for each worker, and --format json holds every other record.",
    },
    "command": {},
    "format": {
        "log": "use --format console with --full to read the findings, or --format json in a script.",
        "summary": "use --format json; `verdict`, `supply`, `recommendation` and `findings` hold the answer.",
    },
}
"""What to do instead, by the word that users type: `--soak`, `reference`, `log`."""


def gone_message(kind: Kind, word: str) -> str | None:
    """Return "`WORD` is gone: ADVICE", or None if the word is not in the table. A Python keyword counts as its option."""
    typed = f"--{word.replace('_', '-')}" if kind == "option" and not word.startswith("-") else word
    advice = GONE[kind].get(typed)
    return None if advice is None else f"`{word}` is gone: {advice}"
