"""Tries fixes in one warm process: applies each, proves that only speed changes, measures it, then puts the best together. Each
step is reported at once, so that a process which a fix brings down loses nothing of the others."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import psutil
from pydantic import TypeAdapter

from cs_input_analyzer.errors import TargetError
from cs_input_analyzer.pipeline.edits import EditError, apply, deterministic, timed
from cs_input_analyzer.pipeline.graph import graph_def_of, ops_of
from cs_input_analyzer.pipeline.op_kinds import KEEPERS
from cs_input_analyzer.records import FEWEST_ROUNDS, UNTRIED, Edit, Estimate
from cs_input_analyzer.worker.equality import MEMORY_CHECK, Proof, is_memory_short, prove
from cs_input_analyzer.worker.failures import named_message
from cs_input_analyzer.worker.gains import BlockError, Stopwatch, gain_in, is_beyond, is_gain, run_rounds
from cs_input_analyzer.worker.journal import Candidate

# Of the time for all, changed sources are run in the first of these parts. Of what is left, the proofs end by the second, each fix
# by itself by the third where one gains, putting them together by the fourth; the last part goes to the whole of them against the
# original once more. The best of many is best by luck, too: what chose it may not judge it.
RUNS_END = 0.2
PROOFS_END, SINGLES_END, TOGETHER_END = 0.4, 0.62, 0.82
LONGEST_PROOF_S = 15.0
SHORTEST_PROOF_S = 0.5
PROOF_SHARE = 0.3
# Fewer seconds than this report nothing of two more pipelines.
LEAST_TOGETHER_S = 2.0
MESSAGE_LIMIT = 500
NO_FILLING = "filling the cache takes longer than there is time"
NO_MEMORY = "there is no memory for another full cache"
_ORIGINAL = "original"
_BEFORE = "before"
# Each holds all that was known then: the last that came counts.
EVENT = "fixes"

Report = Callable[..., None]
# Other texts of the user's source files, by path -> the dataset that the input function gives with them.
Rebuild = Callable[[Mapping[str, str]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one candidate. `reason`: why it was not proven, or not measured; `elements`: compared by the proof, `of` how
    many of a pass, None where that is not known."""

    is_proven: bool = False
    reason: str = ""
    elements: int = 0
    of: int | None = None
    gain: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """All that a process reported of the candidates it was given, by their positions. `kept` were put together, in that order;
    `gain`, `elements`, `of` are those of them as one. `dropped` were put together, too, but measured once more they did not gain
    for sure: `gain` is of that measurement. `running`: the candidate at which a process ended that was not through,
    `ended` how, `was_late`: for no other reason than its time."""

    each: tuple[Outcome, ...]
    kept: tuple[int, ...] = ()
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
    rebuild: Rebuild | None = None,
) -> None:
    """Tries them all within `seconds` and reports what it finds; see `outcomes_of`. `rebuild` serves candidates with `texts`."""
    began_s = time.monotonic()
    trial = _Trial(
        report=report,
        dataset=dataset,
        candidates=candidates,
        deadline_s=began_s + seconds,
        rebuild=rebuild,
        outcomes=outcomes_of((), len(candidates)),
    )
    fixes = [index for index, candidate in enumerate(candidates) if not candidate.only_run]
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
    rebuild: Rebuild | None
    outcomes: Outcomes
    proven: dict[int, Any] = field(default_factory=dict)
    timed: dict[int, Any] = field(default_factory=dict)
    fills: dict[int, int] = field(default_factory=dict)
    fills_of_all: int = 0
    cache_bytes: int = 0
    watch: Stopwatch | None = None
    original: Any = None
    best: Any = None
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def tell(self, **changed: Any) -> None:
        """Reports all that is known by now."""
        self.outcomes = replace(self.outcomes, **changed)
        self.report(EVENT, **asdict(self.outcomes))

    def tell_of(self, index: int, **changed: Any) -> None:
        """The same, with what became of the candidate that was running."""
        each = list(self.outcomes.each)
        each[index] = replace(each[index], **changed)
        self.tell(each=tuple(each), running=None)

    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def run_sources(self, indices: Sequence[int], until_s: float) -> None:
        """Builds what changed sources give, and reads an element of it; those that it does not reach stay without an answer."""
        for index in indices:
            if time.monotonic() > until_s:
                return
            self.tell(running=index)
            try:
                built = self._built(self.candidates[index])
                count = sum(1 for _ in built.take(1))
            except TargetError as error:  # nothing of it was run
                self.tell_of(index, is_proven=True, reason=str(error)[:MESSAGE_LIMIT])
                continue
            except Exception as error:  # whatever TensorFlow or the user's functions raise
                self._refuse(index, f"your code fails with it: {named_message(error, MESSAGE_LIMIT)}")
                continue
            if count:
                self.tell_of(index, is_proven=True, elements=count)
            else:
                self._refuse(index, "no element comes with it")

    def prove_each(self, indices: Sequence[int], until_s: float) -> None:
        """Proves what can be proven."""
        for position, index in enumerate(indices):
            candidate = self.candidates[index]
            share_s = min(LONGEST_PROOF_S, max(SHORTEST_PROOF_S, (until_s - time.monotonic()) / (len(indices) - position)))
            if self.left_s() < share_s:
                self._refuse(index, f"{UNTRIED}: no time was left to compare its elements")
                continue
            self.tell(running=index)
            if candidate.texts:
                edited, why = self._made(partial(self._built, candidate), "your code fails with it")
            else:
                edited, why = self._applied(candidate.edits)
            if edited is None:
                self._refuse(index, why)
                continue
            proof = self._proved(self.dataset, edited, share_s)
            if proof.status == "refused":
                self._refuse(index, proof.reason, proof.elements)
                continue
            self.tell_of(index, is_proven=True, elements=proof.elements, of=proof.of)
            self.proven[index] = edited
            if proof.pass_elements is not None:  # a cache must be full before it is timed
                self.fills[index] = proof.pass_elements + 2

    def time_each(self, until_s: float) -> None:
        """Each by itself against the original; longer, as long as none gains."""
        if not self.proven:
            return
        self.watch = Stopwatch()
        self.original = timed(self.dataset)
        why = self._why_not_filled()
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
        most = {index: candidate.most_gain for index, candidate in enumerate(self.candidates)}
        for rounds in self._rounds({_ORIGINAL: self.original, **self.timed}, self.left_s(), _ORIGINAL, most):
            each = enumerate(self.outcomes.each)
            self.tell(each=tuple(replace(one, gain=gain_in(rounds, index, _ORIGINAL)) for index, one in each))
            if time.monotonic() > until_s and any(map(self._is_gain, self.timed)):
                return

    def put_together(self, until_s: float) -> None:
        """The best first; each next one must make what was there before it faster."""
        gains = {index: one.gain for index, one in enumerate(self.outcomes.each) if one.gain is not None}
        ranked = sorted(gains, key=lambda index: -gains[index].estimate)
        kept = [index for index in ranked if self._is_gain(index)][:1]
        if not kept:
            return
        best = self.outcomes.each[kept[0]]
        self._keep(kept, self.timed[kept[0]], best.gain, best)
        before = self.proven[kept[0]]
        rest = [index for index in ranked if index not in kept and not is_beyond(gains[index], self.candidates[index].most_gain)]
        for position, index in enumerate(rest):
            left_s = until_s - time.monotonic()
            if left_s < LEAST_TOGETHER_S:
                return
            share_s = max(left_s / (len(rest) - position), LEAST_TOGETHER_S)
            self.tell(running=index)
            edits = [edit for one in (*kept, index) for edit in self.candidates[one].edits]
            both, _ = self._applied(edits)
            if both is None:
                continue
            proof = self._proved(before, both, min(LONGEST_PROOF_S, share_s * PROOF_SHARE))
            if proof.status == "refused":
                continue
            form = timed(both)
            if self._fill(form, [*kept, index]):
                continue
            three = {_ORIGINAL: self.original, _BEFORE: self.best, index: form}
            seen = list(self._rounds(three, share_s * (1 - PROOF_SHARE), _BEFORE))
            whole = gain_in(seen[-1], index, _ORIGINAL) if seen and is_gain(gain_in(seen[-1], index, _BEFORE)) else None
            if whole is None or not is_gain(whole):
                continue
            kept.append(index)
            before = both
            self._keep(kept, form, whole, min(self.outcomes, proof, key=lambda one: one.elements))

    def confirm(self) -> None:
        """All kept ones as one against the original, in rounds that had no part in choosing them."""
        if self.best is None or self.left_s() < LEAST_TOGETHER_S:
            return
        seen = list(self._rounds({_ORIGINAL: self.original, _BEFORE: self.best}, self.left_s(), _ORIGINAL))
        gain = gain_in(seen[-1], _BEFORE, _ORIGINAL) if seen else None
        if gain is not None and (gain.count or 0) >= FEWEST_ROUNDS:
            if is_gain(gain):
                self._keep(self.outcomes.kept, self.best, gain, self.outcomes)
            else:
                self.tell(kept=(), dropped=self.outcomes.kept, gain=gain, elements=0, of=None)

    def _is_gain(self, index: int) -> bool:
        return is_gain(self.outcomes.each[index].gain, self.candidates[index].most_gain)

    def _rounds(
        self, datasets: Mapping[Any, Any], seconds: float, over: Any, most: Mapping[Any, float | None] | None = None
    ) -> Iterable[Any]:
        assert self.watch is not None

        def begin(name: Any) -> None:
            # What was put together last runs as those before it: if it brings the process down, the newest of them is to blame.
            newest = self.outcomes.kept[-1] if name == _BEFORE and self.outcomes.kept else None
            self.tell(running=name if isinstance(name, int) else newest)

        return run_rounds(self.watch, datasets, over, seconds=seconds, draw=self.draw, begin=begin, most=most)

    def _why_not_filled(self) -> str:
        """Fills the caches of the original, so that no fix is compared with its first pass; why it cannot be, or nothing."""
        if not any(op.kind in KEEPERS for op in ops_of(graph_def_of(self.dataset))):
            return ""
        known = next(iter(self.fills.values()), None)
        self.fills_of_all = self._pass_elements() + 2 if known is None else known
        return self._fill(self.original, []) if self.fills_of_all > 2 else NO_FILLING

    def _pass_elements(self) -> int:
        """Elements of one pass of the original; 0 where that takes too long to find out, or fails."""
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
        """Reads a pipeline once to its end, if it or the original has a cache; why that cannot be done, or nothing."""
        elements = max((self.fills[part] for part in parts if part in self.fills), default=0)
        elements = max(elements, self.fills_of_all)
        if not elements:
            return ""
        if is_memory_short(self.cache_bytes):
            return NO_MEMORY
        assert self.watch is not None
        free_bytes = psutil.virtual_memory().available
        try:
            is_full = self.watch.fill(form, elements, time.monotonic() + self.left_s() / 3)
        except BlockError as error:
            return f"it fails: {error}"
        self.cache_bytes = max(self.cache_bytes, free_bytes - psutil.virtual_memory().available)
        return "" if is_full else NO_FILLING

    def _made(self, make: Callable[[], Any], fails: str) -> tuple[Any, str]:
        """What a change gives, or None and why it gives nothing."""
        try:
            return make(), ""
        except (EditError, TargetError) as error:
            return None, str(error)
        except Exception as error:  # whatever TensorFlow or the user's functions raise
            return None, f"{fails}: {named_message(error, MESSAGE_LIMIT)}"

    def _applied(self, edits: Sequence[Edit]) -> tuple[Any, str]:
        return self._made(lambda: apply(self.dataset, edits), "TensorFlow refuses the edited pipeline")

    def _built(self, candidate: Candidate) -> Any:
        if self.rebuild is None:
            raise TargetError("there is no source to build it from again")
        return self.rebuild(dict(candidate.texts))

    def _proved(self, original: Any, edited: Any, seconds: float) -> Any:
        try:
            return prove(original, edited, seconds=seconds)
        except Exception as error:  # what cannot even be compared is not proven
            return Proof(status="refused", reason=f"it could not be compared: {named_message(error, MESSAGE_LIMIT)}")

    def _refuse(self, index: int, reason: str, elements: int = 0) -> None:
        self.tell_of(index, reason=reason[:MESSAGE_LIMIT], elements=elements)

    def _keep(self, kept: Sequence[int], form: Any, gain: Estimate | None, compared: Proof | Outcome | Outcomes) -> None:
        self.best = form
        self.tell(kept=tuple(kept), gain=gain, elements=compared.elements, of=compared.of)


def outcomes_of(events: Sequence[Mapping[str, Any]], count: int) -> Outcomes:
    """What the events of a process say of its `count` candidates, wherever they end."""
    told = [event for event in events if event["event"] == EVENT]
    return TypeAdapter(Outcomes).validate_python(told[-1]) if told else Outcomes(each=(Outcome(),) * count)
