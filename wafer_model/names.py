"""Names as people write them -> the one that is meant: `GPT-J`, `gptj` and `gptj 6b` are all `gptj_6b`.

Case and what stands between letters and numbers do not matter, and the beginning of a name is enough where only one name has it.
Numbers are never cut, for `gpt3_1` would be as good as 111m, 1.3b and 13b. Of several the user is asked, and nothing is guessed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from wafer_model.errors import WaferModelError


def find_name(text: str, names: Iterable[str], what: str, *, otherwise: str = "") -> str:
    """The one of `names` that `text` means; one that is written exactly so before all others.

    Args:
        what: is looked for, as messages call it: `network`.
        otherwise: what could have been given instead of a name, for the message.

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
    """Whether the name goes on where the text ends: after a whole number, or in the middle of letters."""
    whole, start = _parts(name), _parts(text)
    if not start or len(start) > len(whole) or whole[: len(start) - 1] != start[:-1]:
        return False
    last, typed = whole[len(start) - 1], start[-1]
    return last == typed or (typed[0].isalpha() and last.startswith(typed))


def _parts(text: str) -> tuple[str, ...]:
    """`GPT-3 1.3B` and `gpt3_1.3b` -> gpt 3 1.3 b; letters that only a sign parts are one."""
    found: list[str] = []
    for piece in re.findall(r"[a-z]+|[0-9]+(?:\.[0-9]+)?", text.lower()):
        if found and found[-1][0].isalpha() and piece[0].isalpha():
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)
