"""Carry out fixes: from the changed source if the input function can be run again, else by edits of the graph.

The edits of the graph are made in both cases, because they hold the preconditions of a fix. `tfdata.edits` has one table for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.records import Candidate, SourceChange
from cs_input_analyzer.tfdata.edits import EditError, apply
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of
from cs_input_analyzer.tfdata.messages import named_message
from cs_input_analyzer.tfdata.source.patch import make_patch
from cs_input_analyzer.trial.equality import MESSAGE_LIMIT, is_memory_short

# Other texts of the user's source files, by path -> the dataset of the input function with them.
Rebuild = Callable[[Mapping[str, str]], Any]
# The result of a changed source: see `Outcome.source`.
SourceFate = Literal["", "ran", "proven", "not run", "fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """Hold the dataset of a changed source, or the reason why there is none."""

    dataset: Any = None
    fate: SourceFate = ""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Forms:
    """Build datasets with fixes. `texts`: the user's files by path; `rebuild`: None if no source can be run."""

    dataset: Any
    candidates: Sequence[Candidate]
    texts: Mapping[str, str]
    rebuild: Rebuild | None

    def by_graph(self, fixes: Iterable[int], base: Any = None) -> tuple[Any, str]:
        """Return the dataset with the edits of some candidates, or None and the reason. `base`: edited in its place."""
        edits = [edit for index in fixes for edit in self.candidates[index].edits]
        try:
            if base is None:
                return apply(self.dataset, edits), ""
            # Ops are counted by method: with another number of them, those of `base` may have other names.
            counts = [Counter(_method(op.name) for op in ops_of(graph_def_of(one))) for one in (self.dataset, base)]
            moved = next((edit.op for edit in edits if counts[0][_method(edit.op)] != counts[1][_method(edit.op)]), None)
            return (apply(base, edits), "") if moved is None else (None, f"{moved} is not in the graph of the changed source")
        except EditError as error:
            return None, str(error)
        except Exception as error:  # whatever TensorFlow raises
            return None, f"TensorFlow refuses the edited pipeline: {named_message(error, MESSAGE_LIMIT)}"

    def by_source(self, fixes: Iterable[int]) -> Sourced:
        """Run the input function with the changes of some candidates."""
        patch = make_patch(self._changes(fixes), self.texts)
        if self.rebuild is None or patch.by_hand:
            reason = patch.by_hand[0][1] if patch.by_hand else "there is no source to build it from again"
            return Sourced(fate="not run", reason=reason)
        if is_memory_short():
            return Sourced(fate="not run", reason="the memory is nearly full")
        try:
            return Sourced(dataset=self.rebuild({file.path: file.after for file in patch.files}), fate="ran")
        except TargetError as error:  # nothing of it was run
            return Sourced(fate="not run", reason=str(error)[:MESSAGE_LIMIT])
        except Exception as error:  # whatever TensorFlow or the user's functions raise
            return _failed(error)

    def fitting(self, fixes: Iterable[int]) -> list[int]:
        """Return those of the candidates whose changes fit into one patch."""
        fixes = list(fixes)
        applied = make_patch(self._changes(fixes), self.texts).applied
        return [index for index in fixes if self.candidates[index].change in applied]

    def together(self, patched: Sequence[int], others: Sequence[int]) -> Any:
        """Return a dataset with some fixes: `patched` in its source, the others as edits of its graph. Return None if refused."""
        edited, _ = self.by_graph((*patched, *others))
        if edited is None or not patched:
            return edited
        built = self.by_source(patched).dataset
        return built if built is None or not others else self.by_graph(others, built)[0]

    def _changes(self, fixes: Iterable[int]) -> tuple[SourceChange, ...]:
        return tuple(dict.fromkeys(change for index in fixes if (change := self.candidates[index].change) is not None))


def first_element(built: Sourced) -> Sourced:
    """Read one element from the dataset of a changed source."""
    try:
        if built.dataset is not None and not sum(1 for _ in built.dataset.take(1)):
            return Sourced(fate="fails", reason="no element comes with it")
    except Exception as error:  # whatever TensorFlow or the user's functions raise
        return _failed(error)
    return built


def _failed(error: Exception) -> Sourced:
    return Sourced(fate="fails", reason=f"your code fails with it: {named_message(error, MESSAGE_LIMIT)}")


def _method(op: str) -> str:
    """Return the name of an op without its number: `map_2` -> `map`."""
    return re.sub(r"_\d+$", "", op)
