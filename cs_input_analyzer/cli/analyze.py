"""`analyze` and `demo`: measure, plan, report."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.running import Output, typed_command
from cs_input_analyzer.cli.terminal import Progress, print_on_stderr
from cs_input_analyzer.errors import LaunchError, UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Consumption
    from cs_input_analyzer.request.request import Request

# The demo plans for the nodes of a public site, and judges a launch of one worker with half a node: neither is fitted to this host.
DEMO_SAMPLE = "vit_slow"
HEALTHY_SAMPLE = "vit"
DEMO_CLUSTER = "alcf-cs2-01"
DEMO_LAUNCH = "1x2x32"
# What a wafer took in a public run: sample -> the run, and the rate while it was fed, where that is not the rate of the run.
# The log of vit_cs3 says 3,500 images/s in bursts, and 776 on average, as it waited for its input.
PUBLIC_RUNS = {"vit_slow": ("vit_cs3", 3500.0), "vit": ("vit_cs3", 3500.0), "bert_pretrain": ("bert_pipe_r171", None)}
# Any of these says how fast the accelerator consumes.
DEMAND_CHOICES = ("demand", "step_time", "wafer", "compile_report", "performance_json")


@click.command(
    cls=Command,
    notes_more=True,
    examples=(
        "cs_input_analyzer analyze data.py:train_input_fn --set files=24 --demand 7k",
        "cs_input_analyzer analyze data.py:train_input_fn --cluster slurm --demand 7k",
        "srun -N1 --exclusive --mem=0 cs_input_analyzer analyze data.py:train_input_fn",
    ),
)
@click.argument("target")
@shared.with_options(shared.TARGET, shared.STAND_INS, shared.analysis(), shared.RULES, shared.LAUNCH, shared.OUTPUT)
def analyze(target: str, params_file: str | None, overrides: tuple[str, ...], **choices: Any) -> int:
    """Measure TARGET, plan a launch, and report.

    TARGET is an input function, package.module:function or path/file.py:function.
    """
    return _analyze(target, params_file, overrides, choices)


@click.command(cls=Command, notes_more=True)
@click.option("--sample", metavar="NAME", default=DEMO_SAMPLE, show_default=True, help="Which of the sample pipelines.")
@shared.with_options(shared.analysis(60.0), shared.SBATCH_ARGS, shared.RULES, shared.OUTPUT)
def demo(sample: str, **choices: Any) -> int:
    """Run the whole analysis on a small dataset that is written for it.

    The data go to your cache folder; the report goes to the terminal, to demo_report.html and to demo_run.json.
    """
    import sample_pipelines
    from cs_input_analyzer.files import cache_folder
    from cs_input_analyzer.host.machine import check_tensorflow
    from cs_input_analyzer.request.options import as_layout

    try:
        found = sample_pipelines.find(sample)
    except LookupError as error:
        raise UsageError(f"--sample {sample}: {error.args[0]}") from None
    check_tensorflow()
    folder = cache_folder() / "samples" / sample
    with Progress(choices["quiet"]) as progress:
        params_file = _write_sample(sample, folder, progress)
    choices["json_file"] = choices["json_file"] or "demo_run.json"
    choices["html_file"] = choices["html_file"] or "demo_report.html"
    published = public_demand(sample) if all(choices[name] is None for name in DEMAND_CHOICES) else None
    if published is not None:
        choices["demand"] = published.samples_per_s.estimate
    if all(choices[name] is None for name in ("cluster", "nodes", "cpus_per_node", "memory_bytes_per_node")) and (
        choices["launcher"] == "local"
    ):
        choices["cluster"] = DEMO_CLUSTER
        if sample in (DEMO_SAMPLE, HEALTHY_SAMPLE) and choices["current"] is None:
            choices["current"] = as_layout(DEMO_LAUNCH)
    is_quiet = choices["quiet"]
    code = _analyze(found.target, str(params_file), (), choices, published)
    if sample == DEMO_SAMPLE and not is_quiet:
        print_on_stderr(_what_to_try(found.target, params_file))
    return code


def _what_to_try(target: str, params_file: Path) -> str:
    """Return the commands that apply the fixes, and that show the same input without the faults."""
    tune = f"cs_input_analyzer tune {target} --params {shlex.quote(str(params_file))} --write-patch faster.patch"
    healthy = f"cs_input_analyzer demo --sample {HEALTHY_SAMPLE}"
    return f"Prove the fixes, and write a patch:\n  {tune}\nSee the repaired pipeline:\n  {healthy}"


def public_demand(sample: str) -> Consumption | None:
    """Return what the wafer took in the public run of the sample's network, and its source. None if there is no such run."""
    from wafer_model import from_rate
    from wafer_model.published import published_runs

    if sample not in PUBLIC_RUNS:
        return None
    name, fed_per_s = PUBLIC_RUNS[sample]
    run = next(run for run in published_runs() if run.id == name)
    what = f"a public run of {run.network}, release {run.release} ({run.id} in wafer_model/published.yaml)"
    if fed_per_s is None:
        text = f"{what}, which did not wait for its input"
    else:
        text = (
            f"{what}: {fed_per_s:,.0f} images/s while it was fed, {run.samples_per_s:,.0f} on average, as it waited for its input"
        )
    rate = from_rate(fed_per_s or run.samples_per_s, mode=run.mode)
    limited_by = rate.limited_by if fed_per_s else run.bound
    return replace(rate, source="public run", system=run.system, limited_by=limited_by, notes=(text,))


def _analyze(
    target: str, params_file: str | None, overrides: tuple[str, ...], choices: dict[str, Any], known: Consumption | None = None
) -> int:
    """`known`: whose rate the demand is, where it says more than `--demand` can."""
    from cs_input_analyzer.workflows import launched

    output = Output.taken(choices)
    is_named = any(word.startswith("--json") for word in sys.argv[1:])  # `demo` saves its run without being asked
    command = typed_command(*(() if is_named or "json" not in output.files else ("--json", output.files["json"])))
    request = request_of(target, params_file, overrides, choices, command)
    found = output.measured(
        request.options.max_seconds,
        lambda progress, is_allowed: launched.analyze(on_own_files(request, is_allowed), progress=progress),
        request.options.on_own_files,
    )
    if known is not None:
        found = replace(found, consumption=replace(known, mode=found.options.wafer_mode))
    output.deliver(found, keeps=True)
    return output.exit_code(found, is_interrupted=found.interrupted)


def request_of(
    target: str | None, params_file: str | None, overrides: tuple[str, ...], choices: dict[str, Any], command: str
) -> Request:
    """Return the request of a command that measures this target. A target that could not be read is None.

    Raises:
        UsageError: all mistakes of the command line.
    """
    from cs_input_analyzer.request.options import read_options, with_cluster_file
    from cs_input_analyzer.request.request import read_request
    from cs_input_analyzer.request.target import params_json_of
    from cs_input_analyzer.tfdata import load

    found_wrong, params_json = mistakes(), None
    with found_wrong:
        params = load.load_params(params_file, overrides)
        params_json = params_json_of(params)
    request = None
    if target is None:
        read_options(found_wrong, **with_cluster_file(choices))
    else:
        request = read_request(found_wrong, target, params_json=params_json, command=command, **choices)
    found_wrong.raise_any()
    assert request is not None
    return request


def on_own_files(request: Request, is_allowed: bool) -> Request:
    """Return the request with the user's word about running code on their own files."""
    return replace(request, options=replace(request.options, on_own_files=is_allowed))


def _write_sample(sample: str, folder: Path, progress: Callable[[str, float], None]) -> Path:
    """Write the data in another process, which keeps TensorFlow out of this one. Return the params file."""
    import subprocess

    root = str(Path(__file__).resolve().parent.parent.parent)
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
    }
    progress(f"writing the {sample} data", 0.0)
    writes = "import sys, sample_pipelines; print(sample_pipelines.write_sample(*sys.argv[1:]))"
    command = [sys.executable, "-c", writes, sample, str(folder)]
    written = subprocess.run(command, capture_output=True, text=True, env=environment)
    if written.returncode != 0:
        lines = written.stderr.strip().splitlines() or ["no word why"]
        raise LaunchError(f"the sample data could not be written to {folder}: {lines[-1]}; XDG_CACHE_HOME names another folder")
    return Path(written.stdout.splitlines()[-1].strip())
