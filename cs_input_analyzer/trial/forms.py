"""Carry out fixes: from the changed source if the input function can be run again, else by edits of the graph.

The edits of the graph are made in both cases, because they hold the preconditions of a fix. `tfdata.edits` has one table for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.records import Candidate, SourceChange
from cs_input_analyzer.tfdata.edits import EditError, apply
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

    def by_graph(self, fixes: Iterable[int]) -> tuple[Any, str]:
        """Return the dataset with the edits of some candidates, or None and the reason."""
        try:
            return apply(self.dataset, [edit for index in fixes for edit in self.candidates[index].edits]), ""
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

    def together(self, fixes: Sequence[int], patched: Sequence[int]) -> Any:
        """Return a dataset with some fixes: the changed source if all are `patched`, else the changed graph; None if refused."""
        edited, _ = self.by_graph(fixes)
        return edited if edited is None or tuple(patched) != tuple(fixes) else self.by_source(fixes).dataset

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
