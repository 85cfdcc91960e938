"""Find a name as people write it: `GPT-J`, `gptj` and `gptj 6b` are all `gptj_6b`.

Case and signs between letters and numbers do not matter. The beginning of a name is enough if only one name has it. Numbers are
never cut: `gpt3_1` would fit 111m, 1.3b and 13b. If several names fit, the error lists them, and nothing is guessed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from wafer_model.errors import WaferModelError


def find_name(text: str, names: Iterable[str], what: str, *, otherwise: str = "") -> str:
    """Return the one of `names` that `text` means. An exact match comes before all others.

    Args:
        what: the word for such a name in messages: `network`.
        otherwise: the end of the message about an unknown name.

    Raises:
        WaferModelError: several could be meant, or none.
    """
    known = tuple(names)
    if text in known:
        return text
    typed = _plain(text)
    plain = {name: _plain(name) for name in known}
    found = [name for name in known if plain[name] == typed] or [name for name in known if _begins(plain[name], typed)]
    if len(found) == 1:
        return found[0]
    if found:
        raise WaferModelError(f"which {what} is {text!r}? {', '.join(found)}")
    close = difflib.get_close_matches(typed, plain.values(), n=4)
    near = [name for each in close for name in known if plain[name] == each]
    hint = f"did you mean {' or '.join(near)}? There are {', '.join(known)}" if near else f"one of {', '.join(known)}"
    raise WaferModelError(f"unknown {what} {text!r}: {hint}{otherwise}")


def _begins(name: str, text: str) -> bool:
    """Return whether the name begins with the text, and not in the middle of a number."""
    end = r"(?![\d.])" if text[-1:].isdigit() else ""
    return bool(text) and re.match(re.escape(text) + end, name) is not None


def _plain(text: str) -> str:
    """Return `gpt3 1.3b` for `GPT-3 1.3B` and `gpt3_1.3b`: signs are left out, but between two numbers."""
    return re.sub(r"(?<!\d) | (?!\d)", "", re.sub(r"[^a-z0-9.]+", " ", text.lower()))
