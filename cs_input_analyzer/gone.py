"""Options, commands and formats that are gone, with what to do instead: one clear message for a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["option", "command", "format"]

GONE: Mapping[Kind, Mapping[str, str]] = {
    "option": {
        "--est-samples-per-sec": "monitors write no performance.json; `inspect-run LOG_DIR --analysis RUN.json` knows the demand.",
        "--analysis": "`inspect-run LOG_DIR --analysis RUN.json` says which launch would feed a monitored run.",
    },
    "command": {},
    "format": {},
}
"""What to do instead, by the word that users type: `--soak`, `reference`, `log`."""


def gone_message(kind: Kind, word: str) -> str | None:
    """Return "`WORD` is gone: ADVICE", or None if the word is not in the table. A Python keyword counts as its option."""
    typed = f"--{word.replace('_', '-')}" if kind == "option" and not word.startswith("-") else word
    advice = GONE[kind].get(typed)
    return None if advice is None else f"`{word}` is gone: {advice}"
