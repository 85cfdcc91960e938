"""Draw the strip of a pipeline: its ops side by side in the order of the data, as SVG and as one line of text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cs_input_analyzer.model.strip import Block, strip_of
from cs_input_analyzer.records import RESTART, RUNTIME, UNATTRIBUTED, Analysis
from cs_input_analyzer.report.chart import Row, escaped, percent, shown, tag, told
from cs_input_analyzer.report.costs import cost_anchors, shown_profile
from cs_input_analyzer.report.document import Chart, Key
from cs_input_analyzer.report.wording import one_line
from cs_input_analyzer.units import format_ratio, format_seconds, several

HEIGHT = 40
# Shares of the strip: a block that can still be clicked, and the most that all gaps together take.
LEAST_WIDTH, MOST_GAPS = 0.03, 0.3
# Pixels: of a letter, of the room beside a name, of the strip on a phone and of a wide one.
LETTER, BESIDE, NARROW, WIDE = 7.5, 12, 280, 640
NO_OPS = {RUNTIME: "TensorFlow's runtime", RESTART: "start of the next pass"}
CAPTION = (
    "Ops in the order of the data. Width: share of the CPU time. Gap: threads wait there. The coloured op limits the pipeline, "
    "or takes most of the CPU."
)


def pipeline_strip(analysis: Analysis) -> Chart | None:
    """Draw the ops as blocks that lead to their rows in the table of costs; None if no cost is known."""
    blocks, profile = strip_of(analysis), shown_profile(analysis)
    if not blocks or profile is None:
        return None
    anchors = dict(zip([row.name for row in profile.ops], cost_anchors(profile), strict=True))
    links = [f"#{anchors[block.row]}" for block in blocks]
    rows = [_row(block) for block in blocks]
    return Chart(
        name="pipeline",
        title="Pipeline",
        caption=CAPTION,
        svg=_svg(blocks, links),
        keys=tuple(_key(block, link) for block, link in zip(blocks, links, strict=True) if _is_named(block, blocks)),
        table=shown("Pipeline", rows, "ops", "CPU", "wait per sample", "source"),
    )


def label_of(block: Block) -> str:
    """Return the name of a block: its op, or its ops."""
    if block.row in NO_OPS and not block.is_op:
        return NO_OPS[block.row]
    names = [one_line(name) for name in block.names]
    if block.is_joined:
        return f"{len(names)} ops, {names[0]} to {names[-1]}"
    if block.row == UNATTRIBUTED:
        return f"{several(names)} (not told apart)" if block.names != (UNATTRIBUTED,) else UNATTRIBUTED
    own = one_line(block.row)
    others = [name for name in names if name != own]
    return f"{own} with {several(others)}" if others else own


def _line(block: Block) -> str:
    """Return `data.py:35`."""
    return one_line(block.source or "").rpartition("/")[2]


def _row(block: Block) -> Row:
    wait = format_seconds(block.wait_s) if block.wait_s else None
    return {"ops": label_of(block), "CPU": format_ratio(block.share_ratio), "wait per sample": wait, "source": _line(block) or None}


def _key(block: Block, link: str) -> Key:
    share = format_ratio(block.share_ratio) if block.share_ratio is not None else ""
    return Key(look=_look(block), text=label_of(block), href=link, more=" · ".join(filter(None, (share, _line(block)))))


def _look(block: Block) -> str:
    return "limit" if block.is_limit else "op" if block.is_op else "runtime"


def widths_of(blocks: Sequence[Block]) -> list[tuple[float, float]]:
    """Return the width of the gap before each block and of the block itself. They fill the strip."""
    waits = sum(block.wait_ratio for block in blocks)
    of_gaps = min(MOST_GAPS, waits / (1 + waits))
    shares = [block.share_ratio or 0.0 for block in blocks]
    room, total = 1 - of_gaps, sum(shares)
    small = [share / total * room < LEAST_WIDTH for share in shares]
    rest, large = room - LEAST_WIDTH * sum(small), sum(share for share, is_small in zip(shares, small, strict=True) if not is_small)
    found = []
    for block, share, is_small in zip(blocks, shares, small, strict=True):
        gap = of_gaps * block.wait_ratio / waits if waits else 0.0
        found.append((gap, LEAST_WIDTH if is_small else rest * share / large))
    return found


def _svg(blocks: Sequence[Block], links: Sequence[str]) -> str:
    parts, at = [], 0.0
    for block, link, (gap, width) in zip(blocks, links, widths_of(blocks), strict=True):
        if gap:
            waits = f"{label_of(block)} waits {format_seconds(block.wait_s)} for a sample"
            place = {"class": "gap", "x": percent(at), "width": percent(gap), "y": HEIGHT / 2 - 2, "height": 4}
            parts.append(tag("rect", place, *told(waits)))
            at += gap
        parts.append(_linked(block, link, at, width))
        at += width
    return tag("svg", {"class": "strip", "height": HEIGHT, "aria-hidden": "true"}, *parts)


def _linked(block: Block, link: str, at: float, width: float) -> str:
    name = _short_name(block) if block.is_op else ""
    needed = LETTER * len(name) + BESIDE
    rect = tag("rect", {"class": _look(block), "width": "100%", "height": HEIGHT, "rx": 2})
    written: tuple[str, ...] = ()
    if name and needed <= width * WIDE and not block.is_joined:
        look = "label inside" if needed <= width * NARROW else "label inside wide"
        written = (tag("text", {"class": f"{look} on-{_look(block)}", "x": "50%", "y": HEIGHT / 2 + 4}, escaped(name)),)
    key = _key(block, link)
    tip = ", ".join(filter(None, (key.text, key.more)))
    inside = tag("svg", {"x": percent(at), "width": percent(width), "height": HEIGHT}, rect, *written)
    # The links below the strip are those for the keyboard and for readers of the screen.
    return tag("a", {"href": link, "tabindex": -1}, *told(tip), inside)


LEAST_SHARE, SHORTENED, LEAST_BARS = 0.02, 10, 8
# So few blocks are all named below the strip.
FEW_BLOCKS = 6


def strip_line(analysis: Analysis, width: int) -> str:
    """Return the strip as one line of at most `width` columns: `list▏parse ███████▏batch ██`; empty if no cost is known."""
    from rich.cells import cell_len, set_cell_size

    blocks = [block for block in strip_of(analysis) if block.is_op]
    total = sum(block.share_ratio or 0.0 for block in blocks)
    if not total:
        return ""
    names = [_short_name(block) for block in blocks]
    if sum(map(cell_len, names)) + 2 * len(names) + LEAST_BARS > width:
        # Ops without much CPU are left out first, then the ends of names.
        names = [name if block.is_limit or _is_large(block, total) else "…" for name, block in zip(names, blocks, strict=True)]
        names = [name if cell_len(name) <= SHORTENED else set_cell_size(name, SHORTENED - 1).rstrip() + "…" for name in names]
    # Neighbours that are left out are one.
    parts: list[tuple[str, float]] = []
    for name, block in zip(names, blocks, strict=True):
        before_share = parts.pop()[1] if name == "…" and parts and parts[-1][0] == "…" else 0.0
        parts.append((name, before_share + (block.share_ratio or 0.0) / total))
    room = max(0, width - sum(cell_len(name) + 2 for name, _ in parts))
    line = "▏".join(f"{name} {'█' * int(room * share)}".rstrip() for name, share in parts)
    return narrowed(line, width)


def narrowed(line: str, width: int) -> str:
    """Return a line of the strip in at most `width` columns: its bars shrink alike. What then is too long is cut off."""
    from rich.cells import cell_len, set_cell_size

    bars = line.count("█")
    left = bars - max(0, cell_len(line) - width)
    if 0 <= left < bars:
        line = re.sub("█+", lambda bar: "█" * (len(bar[0]) * left // bars), line)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)).rstrip() + "…"


def _is_named(block: Block, blocks: Sequence[Block]) -> bool:
    """Return whether a block has a line below the strip; the table has all of them."""
    return len(blocks) <= FEW_BLOCKS or block.is_limit or (block.share_ratio or 0.0) >= LEAST_SHARE


def _is_large(block: Block, total: float) -> bool:
    return (block.share_ratio or 0.0) >= LEAST_SHARE * total


def _short_name(block: Block) -> str:
    if block.is_joined:
        return "…"
    names = [one_line(name) for name in block.names]
    return "+".join(names) if block.row == UNATTRIBUTED else one_line(block.row)
