"""Try fixes in one warm process: carry out each, prove that only the speed changes, measure it, then combine the best.

A fix is the changed source if that can be run and proven, else the changed graph (`forms`). Both share one proof and one trial.
Each step is reported at once, so a fix that crashes the process loses no result of the others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec
import psutil

from cs_input_analyzer.records import FEWEST_ROUNDS, UNTRIED, Candidate, Estimate, is_clear_gain
from cs_input_analyzer.tfdata.edits import deterministic, timed
from cs_input_analyzer.tfdata.graph import graph_def_of, ops_of
from cs_input_analyzer.tfdata.messages import named_message
from cs_input_analyzer.tfdata.op_kinds import KEEPERS
from cs_input_analyzer.trial.equality import MEMORY_CHECK, MESSAGE_LIMIT, Proof, is_memory_short, prove
from cs_input_analyzer.trial.forms import Forms, Rebuild, Sourced, SourceFate, first_element
from cs_input_analyzer.trial.gains import BlockError, Watch, gain_in, run_rounds

# Ends of the stages, as parts of the time. Changed sources that can only be run end by the first. Of the rest, proofs end by the
# second. Single trials end by the third if one gains, combined trials by the fourth. The last part measures the combination against
# the original again. The best of many is partly lucky, and the rounds that chose it must not judge it.
RUNS_END = 0.2
PROOFS_END, SINGLES_END, TOGETHER_END = 0.4, 0.62, 0.82
LONGEST_PROOF_S = 15.0
SHORTEST_PROOF_S = 0.5
PROOF_SHARE = 0.3
# With fewer seconds than this, two more pipelines give no result.
LEAST_TOGETHER_S = 2.0
NO_FILLING = "filling the cache takes longer than there is time"
NO_MEMORY = "there is no memory for another full cache"
_ORIGINAL = "original"
_BEFORE = "before"
_PATCHED = "patched"
# Each event holds all results so far: the last one counts.
EVENT = "fixes"

Report = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold the result of one candidate.

    Attributes:
        reason: why it was not proven, or not measured.
        elements: compared by the proof.
        of: the elements of a pass; None if unknown.
        source: `proven`: the changed source was proven and measured; otherwise the changed graph was, if anything. `ran`: the
            source gave an element; `fails`: it gave none, or other ones; `not run`; empty: unknown.
        source_reason: why the source fails, or was not run.
    """

    is_proven: bool = False
    reason: str = ""
    elements: int = 0
    of: int | None = None
    gain: Estimate | None = None
    source: SourceFate = ""
    source_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Hold all reports of a process on its candidates, by their positions.

    Attributes:
        kept: combined, in that order; `gain`, `elements`, `of` are those of the combination.
        patched: the kept ones in the changed source; `patch`: the proof and the gain of that source alone.
        dropped: combined too, but without a sure gain when measured again: `gain` is of that measurement.
        running: the candidate at which a process ended early; `ended`: how.
        was_late: whether it ended only because its time was over.
    """

    each: tuple[Outcome, ...]
    kept: tuple[int, ...] = ()
    patched: tuple[int, ...] = ()
    patch: Outcome = Outcome()
    dropped: tuple[int, ...] = ()
    gain: Estimate | None = None
    elements: int = 0
    of: int | None = None
    running: int | None = None
    is_over: bool = False
    ended: str = ""
    was_late: bool = False


def try_fixes(
    report: Report,
    dataset: Any,
    candidates: Sequence[Candidate],
    *,
    seconds: float,
    watch: Watch,
    texts: Mapping[str, str] | None = None,
    rebuild: Rebuild | None = None,
) -> None:
    """Try all candidates within `seconds` and report the results; see `outcomes_of`.

    `texts`: the user's files by path, which the changes of candidates change; `rebuild` runs the input function with other texts.
    """
    began_s = time.monotonic()
    trial = _Trial(
        report=report,
        dataset=dataset,
        candidates=candidates,
        deadline_s=began_s + seconds,
        forms=Forms(dataset=dataset, candidates=candidates, texts=texts or {}, rebuild=rebuild),
        outcomes=outcomes_of((), len(candidates)),
        watch=watch,
    )
    fixes = [index for index, candidate in enumerate(candidates) if candidate.edits]
    until_s = began_s + seconds * (RUNS_END if fixes else 1.0)
    trial.run_sources([index for index in range(len(candidates)) if index not in fixes], until_s)
    began_s, seconds = time.monotonic(), trial.left_s()
    trial.prove_each(fixes, began_s + seconds * PROOFS_END)
    trial.time_each(began_s + seconds * SINGLES_END)
    trial.put_together(began_s + seconds * TOGETHER_END)
    trial.confirm()
    trial.tell(is_over=True, running=None)


@dataclass(slots=True, kw_only=True)
class _Trial:
    report: Report
    dataset: Any
    candidates: Sequence[Candidate]
    deadline_s: float
    forms: Forms
    outcomes: Outcomes
    watch: Watch
    proven: dict[int, Any] = field(default_factory=dict)
    timed: dict[int, Any] = field(default_factory=dict)
    fills: dict[int, int] = field(default_factory=dict)
    fills_of_all: int = 0
    cache_bytes: int = 0
    original: Any = None
    best: Any = None
    whole: Any = None
    patch: Any = None
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def tell(self, **changed: Any) -> None:
        """Report all results so far."""
        self.outcomes = replace(self.outcomes, **changed)
        self.report(EVENT, **asdict(self.outcomes))

    def tell_of(self, index: int, **changed: Any) -> None:
        """Report all results so far, with the result of the candidate that was running."""
        each = list(self.outcomes.each)
        each[index] = replace(each[index], **changed)
        self.tell(each=tuple(each), running=None)

    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def run_sources(self, indices: Sequence[int], until_s: float) -> None:
        """Run changed sources that no edit of the graph can replace. Those that the time does not reach stay without a result."""
        for index in indices:
            if time.monotonic() > until_s:
                break
            self.tell(running=index)
            self._tell_source(index, first_element(self.forms.by_source([index])))
        self.tell(running=None)

    def prove_each(self, indices: Sequence[int], until_s: float) -> None:
        """Prove each fix that can be proven."""
        for position, index in enumerate(indices):
            share_s = min(LONGEST_PROOF_S, max(SHORTEST_PROOF_S, (until_s - time.monotonic()) / (len(indices) - position)))
            if self.left_s() < share_s:
                self._refuse(index, f"{UNTRIED}: no time was left to compare its elements")
                continue
            self.tell(running=index)
            form, proof = self._proven_form(index, share_s, until_s)
            if proof.status == "refused":
                self._refuse(index, proof.reason, proof.elements)
                continue
            self.tell_of(index, is_proven=True, elements=proof.elements, of=proof.of)
            self.proven[index] = form
            if proof.pass_elements is not None:  # a cache must be full before it is timed
                self.fills[index] = proof.pass_elements + 2

    def _proven_form(self, index: int, share_s: float, until_s: float) -> tuple[Any, Proof]:
        """Return the proven form of a fix with its proof: the changed source, or else the changed graph."""
        edited, why = self.forms.by_graph([index])
        source, of_source = Sourced(), None
        if self.candidates[index].change is not None and time.monotonic() < until_s:
            source = self.forms.by_source([index])
        if edited is not None and source.dataset is not None:
            of_source = self._proved(self.dataset, source.dataset, share_s)
            if of_source.status == "proven":
                self._tell_source(index, replace(source, fate="proven"))
                return source.dataset, of_source
        of_graph = Proof(status="refused", reason=why) if edited is None else self._proved(self.dataset, edited, share_s)
        if of_source is not None and of_graph.status == "proven":
            source = Sourced(fate="fails", reason=f"with it, {of_source.reason}")
        self._tell_source(index, first_element(source))
        return edited, of_graph

    def time_each(self, until_s: float) -> None:
        """Time each fix by itself against the original. Continue longer while none gains."""
        if not self.proven:
            return
        self.original = timed(self.dataset)
        why = ""
        if any(op.kind in KEEPERS for op in ops_of(graph_def_of(self.dataset))):  # no fix is compared with its first pass
            known = next(iter(self.fills.values()), None)
            self.fills_of_all = self._pass_elements() + 2 if known is None else known
            why = self._fill(self.original, []) if self.fills_of_all > 2 else NO_FILLING
        for index, edited in self.proven.items():
            form = timed(edited)
            self.tell(running=index)
            reason = why or self._fill(form, [index])
            if reason:
                self.tell_of(index, reason=reason[:MESSAGE_LIMIT])
            else:
                self.timed[index] = form
        if not self.timed:
            return
        for rounds in self._rounds({_ORIGINAL: self.original, **self.timed}, self.left_s(), _ORIGINAL):
            each = enumerate(self.outcomes.each)
            self.tell(each=tuple(replace(one, gain=gain_in(rounds, index, _ORIGINAL)) for index, one in each))
            if time.monotonic() > until_s and any(is_clear_gain(self.outcomes.each[index].gain) for index in self.timed):
                return

    def put_together(self, until_s: float) -> None:
        """Keep the best fix first. Each further fix must make the combination faster."""
        gains = {index: one.gain for index, one in enumerate(self.outcomes.each) if one.gain is not None}
        ranked = sorted(gains, key=lambda index: -gains[index].estimate)
        first = next((index for index in ranked if is_clear_gain(gains[index])), None)
        if first is None:
            return
        self.whole = self.proven[first]
        self._keep((first,), self.timed[first], self.outcomes.each[first].gain, self.outcomes.each[first])
        rest = [index for index in ranked if index != first]
        for position, index in enumerate(rest):
            left_s = until_s - time.monotonic()
            if left_s < LEAST_TOGETHER_S:
                return
            self._add(index, max(left_s / (len(rest) - position), LEAST_TOGETHER_S))

    def _add(self, index: int, share_s: float) -> None:
        """Keep one more fix, if it makes the combination so far faster."""
        self.tell(running=index)
        kept = (*self.outcomes.kept, index)
        both = self.forms.together(kept, self._patched(kept))
        if both is None:
            return
        proof = self._proved(self.whole, both, min(LONGEST_PROOF_S, share_s * PROOF_SHARE))
        if proof.status == "refused":
            return
        form = timed(both)
        if self._fill(form, kept):
            return
        three = {_ORIGINAL: self.original, _BEFORE: self.best, index: form}
        seen = list(self._rounds(three, share_s * (1 - PROOF_SHARE), _BEFORE))
        gain = gain_in(seen[-1], index, _ORIGINAL) if seen and is_clear_gain(gain_in(seen[-1], index, _BEFORE)) else None
        if gain is not None and is_clear_gain(gain):
            self.whole = both
            self._keep(kept, form, gain, min(self.outcomes, proof, key=lambda one: one.elements))

    def _patched(self, kept: Iterable[int]) -> tuple[int, ...]:
        """Return the kept fixes that fit in one changed source."""
        return tuple(self.forms.fitting(index for index in kept if self.outcomes.each[index].source == "proven"))

    def confirm(self) -> None:
        """Measure all kept fixes as one, and their patch, in rounds that had no part in choosing them."""
        if self.best is None or self.left_s() < LEAST_TOGETHER_S:
            return
        if self.outcomes.patched and self.patch is None:
            self._prove_patch(self.outcomes.patched)
        forms = {_ORIGINAL: self.original, _BEFORE: self.best}
        if self.patch is not None and self.patch is not self.best:
            forms[_PATCHED] = self.patch
        seen = list(self._rounds(forms, self.left_s(), _ORIGINAL))
        gain = gain_in(seen[-1], _BEFORE, _ORIGINAL) if seen else None
        if gain is None or (gain.count or 0) < FEWEST_ROUNDS:
            return
        if not is_clear_gain(gain):
            dropped = self.outcomes.kept
            self.tell(kept=(), patched=(), patch=Outcome(), dropped=dropped, gain=gain, elements=0, of=None)
            return
        of_patch = gain if self.patch is self.best else gain_in(seen[-1], _PATCHED, _ORIGINAL) or self.outcomes.patch.gain
        self.tell(gain=gain, patch=replace(self.outcomes.patch, gain=of_patch))

    def _prove_patch(self, patched: Sequence[int]) -> None:
        """Prove the changed source of kept fixes alone, if edits of the graph were kept before the last of them."""
        self.tell(running=patched[-1])
        built = self.forms.by_source(patched)
        proof = Proof(status="refused", reason=built.reason)
        if built.dataset is not None:
            proof = self._proved(self.dataset, built.dataset, min(LONGEST_PROOF_S, self.left_s() * PROOF_SHARE))
        is_proven = proof.status == "proven"
        form = timed(built.dataset) if is_proven else None
        reason = self._fill(form, patched) if is_proven else proof.reason
        self.tell(patch=Outcome(is_proven=is_proven, reason=reason, elements=proof.elements, of=proof.of), running=None)
        self.patch = None if reason else form

    def _rounds(self, datasets: Mapping[Any, Any], seconds: float, over: Any) -> Iterable[Any]:
        def begin(name: Any) -> None:
            # The combination runs last. If it crashes the process, its newest fix is to blame.
            newest = self.outcomes.kept[-1] if name in (_BEFORE, _PATCHED) and self.outcomes.kept else None
            self.tell(running=name if isinstance(name, int) else newest)

        return run_rounds(self.watch, datasets, over, seconds=seconds, draw=self.draw, begin=begin)

    def _pass_elements(self) -> int:
        """Return the elements of one pass of the original; 0 if that takes too long to find out, or fails."""
        until_s = time.monotonic() + self.left_s() / 3
        count = 0
        try:
            for _ in deterministic(self.dataset, one_pass=True):
                count += 1
                if time.monotonic() > until_s or (count % MEMORY_CHECK == 0 and is_memory_short()):
                    return 0
        except Exception:  # whatever TensorFlow or the user's functions raise
            return 0
        return count

    def _fill(self, form: Any, parts: Sequence[int]) -> str:
        """Read a pipeline to its end if it or the original has a cache. Return why that cannot be done."""
        elements = max((self.fills[part] for part in parts if part in self.fills), default=0)
        elements = max(elements, self.fills_of_all)
        if not elements:
            return ""
        if is_memory_short(self.cache_bytes):
            return NO_MEMORY
        free_bytes = psutil.virtual_memory().available
        try:
            is_full = self.watch.fill(form, elements, time.monotonic() + self.left_s() / 3)
        except BlockError as error:
            return f"it fails: {error}"
        self.cache_bytes = max(self.cache_bytes, free_bytes - psutil.virtual_memory().available)
        return "" if is_full else NO_FILLING

    def _proved(self, original: Any, edited: Any, seconds: float) -> Any:
        try:
            return prove(original, edited, seconds=seconds)
        except Exception as error:  # what cannot even be compared is not proven
            return Proof(status="refused", reason=f"it could not be compared: {named_message(error, MESSAGE_LIMIT)}")

    def _refuse(self, index: int, reason: str, elements: int = 0) -> None:
        self.tell_of(index, reason=reason[:MESSAGE_LIMIT], elements=elements)

    def _tell_source(self, index: int, source: Sourced) -> None:
        """Report the result of a changed source. Its candidate keeps running."""
        self.tell_of(index, source=source.fate, source_reason=source.reason[:MESSAGE_LIMIT])
        self.tell(running=index)

    def _keep(self, kept: Sequence[int], form: Any, gain: Estimate | None, compared: Proof | Outcome | Outcomes) -> None:
        """Report the kept fixes. If all of them are in the source, that is the patch."""
        self.best = form
        patched, patch = self._patched(kept), self.outcomes.patch
        if patched == tuple(kept):
            self.patch = form
            patch = Outcome(is_proven=True, elements=compared.elements, of=compared.of, gain=gain)
        elif patched != self.outcomes.patched:  # more of the source, and edits of the graph: the source was not proven alone
            self.patch, patch = None, Outcome()
        self.tell(kept=tuple(kept), patched=patched, patch=patch, gain=gain, elements=compared.elements, of=compared.of)


def outcomes_of(events: Sequence[Mapping[str, Any]], count: int) -> Outcomes:
    """Return the results of `count` candidates in the events of a process, wherever they end."""
    told = [event for event in events if event["event"] == EVENT]
    return msgspec.convert(told[-1], Outcomes) if told else Outcomes(each=(Outcome(),) * count)
