"""Read one analysis's request: all that it starts from, resolved once. All mistakes are noted before anything is started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cs_input_analyzer import __version__
from cs_input_analyzer.engines import selection as engine
from cs_input_analyzer.errors import Mistakes
from cs_input_analyzer.host import machine
from cs_input_analyzer.records import Cluster, Consumption, Host, KeptPlan, Options, PipelineGraph, Tool
from cs_input_analyzer.request import demand
from cs_input_analyzer.request.options import read_options, with_cluster_file
from cs_input_analyzer.request.target import Target, check_target, name_of, script_words

TOOL = Tool(name="cs_input_analyzer", version=__version__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that one analysis starts from, complete and checked.

    Attributes:
        target: the name of the input function, or the command of a script.
        pickled: the file of a function that workers cannot import by its name.
        options: with the execution mode that all sources agree on.
        host: the host that measures. Slurm's is known when it has given its nodes; until then, this one.
        cluster: the cluster that is planned for; like `host` with Slurm.
        declared: a cluster that was given as such, not by its name.
        consumption: the demand; None without one, or until the pipeline gives the batch size of a `--wafer` model.
        is_tuning: whether fixes are the aim, so that they get more of the time.
        kept: the plan of an earlier run of the same; None if there was none, or is not known yet.
        ends_epochs: as in `CaptureCandidate`, of a script.
    """

    target: str
    pickled: str | None = None
    options: Options
    host: Host
    cluster: Cluster
    declared: Cluster | None = None
    consumption: Consumption | None
    tool: Tool = TOOL
    command: str
    created_at: str
    is_tuning: bool = False
    kept: KeptPlan | None = None
    ends_epochs: bool = False

    @property
    def step(self) -> int | None:
        """Return samples of one step of the accelerator, as they were given or as the demand implies; None if unknown."""
        return self.options.batch_size or (self.consumption.batch_size if self.consumption is not None else None)


def read_request(
    mistakes: Mistakes,
    target: Target,
    *,
    params_json: str | None = None,
    declared: Cluster | None = None,
    command: str = "",
    **choices: Any,
) -> Request | None:
    """Return the request, or None if there are mistakes, which are noted.

    Args:
        params_json: the params of the input function.
        declared: a cluster given as such; `choices["cluster"]` is its name then.
        command: what was called or typed.
        choices: the options, see `read_options`.
    """
    options = read_options(mistakes, **with_cluster_file(choices, declared))
    with mistakes:
        check_target(target)
    if options is None:
        return None
    consumption = None
    with mistakes:
        options, consumption = demand.resolved(options, script=script_words(target))
    place = engine.resolve(options, mistakes, declared=declared)
    if place is None or mistakes:
        return None
    return Request(
        target=target if isinstance(target, str) else name_of(target),
        options=replace(options, params_json=params_json),
        host=place.host,
        cluster=place.cluster,
        declared=declared,
        consumption=consumption,
        command=command,
        created_at=machine.utc_now(),
    )


def with_pipelines_batch(request: Request, pipeline: PipelineGraph | None) -> Request:
    """Return the request with the demand of a `--wafer` model for the pipeline's own batch size, if none was given."""
    if request.consumption is not None or request.options.wafer is None or pipeline is None:
        return request
    options, consumption = demand.with_pipelines_batch(request.options, pipeline.samples_per_element)
    return replace(request, options=options, consumption=consumption)
