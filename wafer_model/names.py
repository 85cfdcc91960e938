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
    alike = [name for name in known if _parts(text) and _parts(name) == _parts(text)]
    found = alike or [name for name in known if _begins(name, text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise WaferModelError(f"which {what} is {text!r}? {', '.join(found)}")
    plain = {"".join(_parts(name)): name for name in known}
    near = [plain[one] for one in difflib.get_close_matches("".join(_parts(text)), plain, n=4)]
    hint = f"did you mean {' or '.join(near)}? There are {', '.join(known)}" if near else f"one of {', '.join(known)}"
    raise WaferModelError(f"unknown {what} {text!r}: {hint}{otherwise}")


def _begins(name: str, text: str) -> bool:
    """Return whether the name goes on where the text ends: after a whole number, or in the middle of letters."""
    whole, start = _parts(name), _parts(text)
    if not start or len(start) > len(whole) or whole[: len(start) - 1] != start[:-1]:
        return False
    last, typed = whole[len(start) - 1], start[-1]
    return last == typed or (typed[0].isalpha() and last.startswith(typed))


def _parts(text: str) -> tuple[str, ...]:
    """Return gpt, 3, 1.3, b of `GPT-3 1.3B` and `gpt3_1.3b`. Letters with only a sign between them are one part."""
    found: list[str] = []
    for piece in re.findall(r"[a-z]+|[0-9]+(?:\.[0-9]+)?", text.lower()):
        if found and found[-1][0].isalpha() and piece[0].isalpha():
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)
