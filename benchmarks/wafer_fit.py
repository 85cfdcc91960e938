"""Fitting the wafer model's constants on public runs, and how well they predict networks that were left out.

Three constants per mode at most: the efficiency, the latency of a streamed block, and a factor per system (against CS-2) and per
major release (against the latest), both held near 1 by a prior, because few public runs speak about them. No row and no network
has a constant of its own. Errors are logarithms of model over published: a factor too high and a factor too low are equally wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from wafer_model.calibration import calibrate
from wafer_model.catalogue import build_network
from wafer_model.constants import MODES, UNKNOWN_SYSTEM, Z90, Constants, Domain, constants_of
from wafer_model.errors import WaferModelError
from wafer_model.model import predict
from wafer_model.network import Network
from wafer_model.prediction import WaferPrediction
from wafer_model.published import PublishedRun, published_runs

# What held back the public runs that are fitted, see published.yaml.
FITTED_BOUNDS = ("compute", "estimate")
REFERENCE_SYSTEM = "CS-2"
LATEST_MAJOR = "2"
# Standard deviations of logarithms. Runs of one network on one system differ by this (releases, batches); networks by that; and
# a system or release may lie so far from the reference before the data must insist.
RUN_SPREAD = 0.15
NETWORK_SPREAD = 0.3
FACTOR_PRIOR = UNKNOWN_SYSTEM
# Beyond so many standard deviations a residual pulls linearly and no more (Huber), so that one odd run does not bend the rest.
ODD_ROW = 1.5
# Five public families are too few to promise less after one point (they show 0.02).
CALIBRATED_FLOOR = 0.03
# With fewer left-out groups than this an error estimate is no better than a guess from above.
FEW_GROUPS = 3
# What a one-point calibration promises for its own family.
CALIBRATED_TARGET_RATIO = 0.10
# Where a left-out row misses its interval, or nearly, why. Rows without a line here are not explained.
EXPLANATIONS = {
    "esm2_cs2": "the same configuration took 4.2 ms per block and pass on a CS-2 and 2.5 ms on a CS-3; one latency cannot be both",
    "esm2_cs3": "see esm2_cs2",
    "bert_ws_2048": "BERT at 128 tokens is the most efficient public network (this row implies 0.43 of the peak)",
    "dit_cs2": "a 'modified' configuration that is not public; on a CS-3 the same file misses by less",
    "gptj_r171": "an early release: the same network on the same boxes went from 27.5 to 43.7 samples/s by 2.0.3",
    "gptj_cs3": "2.05 times as fast as on a CS-2; ESM-2 is 1.69 times",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A public run, predicted without its (network, system, mode) group, and with one point of the group."""

    run: PublishedRun
    predicted: WaferPrediction
    calibrated_by: str | None = None

    @property
    def log_error(self) -> float:
        """ln(model / published)."""
        return math.log(self.predicted.samples_per_s.estimate / self.run.samples_per_s)

    @property
    def is_inside(self) -> bool:
        interval = self.predicted.samples_per_s
        return interval.low <= self.run.samples_per_s <= interval.high


def group_of(run: PublishedRun) -> tuple[str, str, str]:
    """What is left out of a fit together."""
    return run.network, run.system, run.mode


def network_of(run: PublishedRun) -> Network:
    return _built(run.network, run.sequence_length)


@cache
def _built(name: str, sequence_length: int | None) -> Network:
    """Fits predict the same few networks hundreds of times."""
    return build_network(name, sequence_length=sequence_length)


def predict_run(run: PublishedRun, constants: Constants, *, calibrated: bool = False) -> WaferPrediction:
    """The model's word on a public run."""
    return predict(
        network_of(run),
        run.system,
        run.mode,
        batch_size=run.batch_size,
        systems=run.systems,
        micro_batch_size=run.micro_batch_size,
        release=run.release,
        constants=constants,
        calibrated=calibrated,
    )


def fit(mode: str, runs: Sequence[PublishedRun], *, start: Constants | None = None) -> Constants:
    """Constants of `mode` that fit `runs` best; the error terms stay as they were in `start`.

    Networks differ in efficiency by more than runs of one network do. So each network has a deviation of its own while fitting
    (a random effect, pulled to 0), and systems and releases are compared within networks; then the deviations are thrown away,
    for a prediction is of a network that may have none.

    Raises:
        WaferModelError: no run of this mode.
    """
    from scipy.optimize import least_squares  # here: a prediction needs no scipy

    chosen = [run for run in runs if run.mode == mode and run.bound in FITTED_BOUNDS]
    if not chosen:
        raise WaferModelError(f"no public {mode} run to fit on")
    base = start or constants_of(mode)
    names = _names(mode, chosen)

    def residuals(values: Sequence[float]) -> list[float]:
        constants = _unpacked(base, names, values)
        deviations = dict(zip(names.networks, values[names.first_network :], strict=True))
        efficiencies = [constants.efficiency * math.exp(deviations[run.network]) for run in chosen]
        errors = [
            _log_error(run, replace(constants, efficiency=efficiency)) / RUN_SPREAD
            for run, efficiency in zip(chosen, efficiencies, strict=True)
        ]
        priors = [value / FACTOR_PRIOR for value in values[names.first_factor : names.first_network]]
        return errors + priors + [deviation / NETWORK_SPREAD for deviation in deviations.values()]

    first = [math.log(0.25)] + [math.log(2.5e-3)] * names.has_latency
    first += [0.0] * (len(names.systems) + len(names.releases) + len(names.networks))
    found = least_squares(residuals, first, loss="huber", f_scale=ODD_ROW, diff_step=1e-4)
    return _unpacked(base, names, found.x)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What the numbers of a fit stand for, in their order: efficiency, latency, systems, releases, networks."""

    has_latency: bool
    systems: tuple[str, ...]
    releases: tuple[str, ...]
    networks: tuple[str, ...]

    @property
    def first_factor(self) -> int:
        return 1 + self.has_latency

    @property
    def first_network(self) -> int:
        return self.first_factor + len(self.systems) + len(self.releases)


def _names(mode: str, chosen: Sequence[PublishedRun]) -> _Names:
    """A factor of a system or release is fitted only where a network has runs on both of its sides: else it is the network's."""

    def comparable(side: Callable[[PublishedRun], str], reference: str) -> tuple[str, ...]:
        at_reference = {run.network for run in chosen if side(run) == reference}
        return tuple(sorted({side(run) for run in chosen if run.network in at_reference} - {reference}))

    return _Names(
        has_latency=mode == "weight_streaming",
        systems=comparable(lambda run: run.system, REFERENCE_SYSTEM),
        releases=comparable(_major, LATEST_MAJOR),
        networks=tuple(sorted({run.network for run in chosen})),
    )


def domain_of(mode: str, runs: Sequence[PublishedRun]) -> Domain:
    """What the fitted runs of `mode` cover, one at least."""
    chosen = [run for run in runs if run.mode == mode and run.bound in FITTED_BOUNDS]
    sizes = [network_of(run).parameters for run in chosen]
    return Domain(
        kinds=tuple(sorted({network_of(run).kind for run in chosen})),
        systems=tuple(sorted({run.system for run in chosen})),
        parameters=(min(sizes), max(sizes)),
    )


def _unpacked(base: Constants, names: _Names, values: Sequence[float]) -> Constants:
    factors = [math.exp(value) for value in values[names.first_factor : names.first_network]]
    return replace(
        base,
        efficiency=math.exp(values[0]),
        layer_latency_s=math.exp(values[1]) if names.has_latency else 0.0,
        system_factor=dict(zip(names.systems, factors, strict=False)),
        release_factor=dict(zip(names.releases, factors[len(names.systems) :], strict=True)),
    )


def _major(run: PublishedRun) -> str:
    return run.release.split(".")[0]


def _log_error(run: PublishedRun, constants: Constants) -> float:
    return math.log(predict_run(run, constants).samples_per_s.estimate / run.samples_per_s)


def leave_groups_out(mode: str, runs: Sequence[PublishedRun]) -> tuple[LeftOut, ...]:
    """Every fitted run of `mode`, predicted by constants that saw nothing of its (network, system, mode)."""
    chosen = [run for run in runs if run.mode == mode and run.bound in FITTED_BOUNDS]
    results = []
    for group in dict.fromkeys(map(group_of, chosen)):
        rest = [run for run in chosen if group_of(run) != group]
        if not rest:
            continue
        constants = fit(mode, rest)
        results += [LeftOut(run=run, predicted=predict_run(run, constants)) for run in chosen if group_of(run) == group]
    return tuple(results)


def calibrate_by_each(mode: str, runs: Sequence[PublishedRun]) -> tuple[LeftOut, ...]:
    """Every run, predicted after calibrating on each other run of its family: same network, system, mode and release.

    Rows whose sequence length is unknown take part: one point makes up for it.
    """
    chosen = [run for run in runs if run.mode == mode and run.bound in ("compute", "unknown")]
    results = []
    for point in chosen:
        family = [run for run in chosen if run.id != point.id and group_of(run) == group_of(point) and run.release == point.release]
        if not family:
            continue
        constants = calibrate(
            constants_of(mode),
            network_of(point),
            point.system,
            batch_size=point.batch_size,
            samples_per_s=point.samples_per_s,
            systems=point.systems,
            micro_batch_size=point.micro_batch_size,
            release=point.release,
        )
        results += [
            LeftOut(run=run, predicted=predict_run(run, constants, calibrated=True), calibrated_by=point.id) for run in family
        ]
    return tuple(results)


def error_factor(errors: Sequence[float]) -> float:
    """Geometric mean of how far off: exp of the mean |ln error|."""
    return math.exp(sum(abs(error) for error in errors) / len(errors))


def log_sigma(left_out: Sequence[LeftOut], *, floor: float = 0.0) -> float:
    """Root mean square of ln(model / published), each group counting once per row as the user would meet it."""
    if not left_out:
        return floor
    return max(floor, math.sqrt(sum(row.log_error**2 for row in left_out) / len(left_out)))


def refit(mode: str, runs: Sequence[PublishedRun]) -> Constants:
    """Constants for `constants.yaml`: fitted on all runs, with errors from leaving groups out and from one-point calibration."""
    constants = fit(mode, runs)
    left_out = leave_groups_out(mode, runs)
    groups = len({group_of(row.run) for row in left_out})
    sigma = log_sigma(left_out)
    if groups < FEW_GROUPS:  # a handful of errors: widen by Student's t over the normal
        from scipy.stats import t

        sigma *= float(t.ppf(0.95, max(1, len(left_out) - 1))) / Z90
    calibrated = log_sigma(calibrate_by_each(mode, runs), floor=CALIBRATED_FLOOR)
    return replace(constants, log_sigma=sigma, calibrated_log_sigma=calibrated, domain=domain_of(mode, runs))


# --- how good the model is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Of one mode.

    Attributes:
        left_out: every fitted row, predicted without its (network, system, mode).
        calibrated: every pair (row, point) of one family.
        error_factor: geometric mean of how far off the left-out rows are; `group_error_factor`: every group counting once.
        inside_ratio: left-out rows inside their 90 % interval; `high_over_low`: width of that interval.
    """

    mode: str
    left_out: tuple[LeftOut, ...]
    calibrated: tuple[LeftOut, ...]
    error_factor: float
    group_error_factor: float
    log_sigma: float
    inside_ratio: float
    high_over_low: float
    calibrated_error_factor: float | None
    calibrated_worst_ratio: float | None
    calibrated_within_ratio: float | None
    calibrated_high_over_low: float

    @property
    def outside(self) -> tuple[LeftOut, ...]:
        return tuple(row for row in self.left_out if not row.is_inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfitted:
    """A row that is not fitted, with what the wafer could have taken: input-bound rows are below it."""

    run: PublishedRun
    model_samples_per_s: float

    @property
    def reached_ratio(self) -> float:
        return self.run.samples_per_s / self.model_samples_per_s


def accuracy_of(mode: str, runs: Sequence[PublishedRun] | None = None) -> Accuracy:
    """Fits once per left-out group: a second or two."""
    rows = published_runs() if runs is None else runs
    left_out = leave_groups_out(mode, rows)
    calibrated = calibrate_by_each(mode, rows)
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in left_out:
        groups.setdefault(group_of(row.run), []).append(abs(row.log_error))
    constants = constants_of(mode)
    errors = [row.log_error for row in calibrated]
    off = [abs(math.expm1(error)) for error in errors]
    return Accuracy(
        mode=mode,
        left_out=left_out,
        calibrated=calibrated,
        error_factor=error_factor([row.log_error for row in left_out]),
        group_error_factor=error_factor([sum(group) / len(group) for group in groups.values()]),
        log_sigma=log_sigma(left_out),
        inside_ratio=sum(row.is_inside for row in left_out) / len(left_out),
        high_over_low=constants.interval_factor() ** 2,
        calibrated_error_factor=error_factor(errors) if errors else None,
        calibrated_worst_ratio=max(off, default=None),
        calibrated_within_ratio=sum(each <= CALIBRATED_TARGET_RATIO for each in off) / len(off) if off else None,
        calibrated_high_over_low=constants.interval_factor(calibrated=True) ** 2,
    )


def overall_error_factor(parts: Sequence[Accuracy]) -> float:
    """Over all left-out rows of all modes."""
    return error_factor([row.log_error for part in parts for row in part.left_out])


def unfitted(runs: Sequence[PublishedRun] | None = None) -> tuple[Unfitted, ...]:
    """Rows held back by something other than the wafer, or of unknown size; evaluation does a third of the arithmetic and is
    left out, since the model is one of training."""
    rows = published_runs() if runs is None else runs
    chosen = [run for run in rows if run.bound not in FITTED_BOUNDS and run.bound != "evaluation"]
    return tuple(
        Unfitted(run=run, model_samples_per_s=predict_run(run, constants_of(run.mode)).samples_per_s.estimate) for run in chosen
    )


def all_modes(runs: Sequence[PublishedRun] | None = None) -> tuple[Accuracy, ...]:
    return tuple(accuracy_of(mode, runs) for mode in MODES)
