"""The command that trains: whatever launcher, mode and Python it was typed with, launch lines train, and say so once."""

from __future__ import annotations

import shlex

import pytest

from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.model.train_command import streams_weights, trained, with_python_of, without_launcher


@pytest.mark.parametrize(
    ("typed", "trains"),
    [
        ("python run.py --mode=validate_only --params p.yaml", "python run.py --mode=train --params p.yaml"),
        ("python run.py --mode compile_only", "python run.py --mode train"),
        ("python run.py --mode eval_all -p a", "python run.py --mode train -p a"),
        ("python run.py --validate_only -p p.yaml", "python run.py -p p.yaml"),
        ("python run.py --compile-only --cs_ip 1.2.3.4", "python run.py --cs_ip 1.2.3.4"),
        ("python run.py --validation-only", "python run.py"),
        ("python run.py compile_only", "python run.py train"),
        # What trains stays as it is.
        *(
            (text, text)
            for text in (
                "python run.py --mode train --name validate_it",
                "python run.py --mode=train_and_eval",
                "python run.py --model_dir compile_only",
                "python run.py --model_dir=compile_only",
                "python run.py --splits eval",
                "bash train.sh 'a b'",
            )
        ),
    ],
)
def test_a_command_that_stops_short_becomes_one_that_trains(typed: str, trains: str) -> None:
    assert shlex.join(trained(shlex.split(typed))) == trains
    assert shlex.join(trained(shlex.split(trains))) == trains


@pytest.mark.parametrize(
    ("typed", "evaluates"),
    [
        ("python run.py --mode=validate_only", "python run.py --mode=eval"),
        ("python run.py --mode predict", "python run.py --mode eval"),
        ("python run.py compile_only", "python run.py eval"),
        ("python run.py --compile-only", "python run.py"),
        *((text, text) for text in ("python run.py --mode eval", "python run.py --mode=eval_all", "python run.py --mode train")),
    ],
)
def test_a_command_for_the_input_of_evaluation_evaluates(typed: str, evaluates: str) -> None:
    assert shlex.join(trained(shlex.split(typed), "eval")) == evaluates


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("csrun_wse --total-nodes 14 --single-task-nodes 2 --cyclic python-ws run.py --mode a", "python-ws run.py --mode a"),
        ("csrun_cpu --mount-dirs /a,/b python run.py", "python run.py"),
        ("/opt/cerebras/csrun_wse python3 run.py", "python3 run.py"),
        ("srun -N 4 --exclusive singularity exec a.sif python run.py", "singularity exec a.sif python run.py"),
        ("python csrun_wse.py", "python csrun_wse.py"),
        ("bash -c 'srun x'", "bash -c 'srun x'"),
    ],
)
def test_a_launcher_in_front_is_left_out(typed: str, left: str) -> None:
    assert shlex.join(without_launcher(shlex.split(typed), "--train-command")) == left


@pytest.mark.parametrize("typed", ["csrun_wse ./train.sh", "srun -N 2 my_program", "csrun_cpu"])
def test_a_launcher_whose_command_cannot_be_told_is_refused_by_name(typed: str) -> None:
    with pytest.raises(UsageError, match=rf"--train-command starts with {typed.split()[0]}, and no word after it is python"):
        without_launcher(typed.split(), "--train-command")


@pytest.mark.parametrize(
    ("typed", "streams"),
    [
        ("python run.py", "python-ws run.py"),
        ("/usr/bin/python3.8 -m a", "python-ws -m a"),
        ("singularity exec a.sif python run.py", "singularity exec a.sif python-ws run.py"),
        # A flavour that was typed stays.
        *((text, text) for text in ("csrun_wse python-ws run.py", "python-pt run.py python-ws", "bash train.sh python-ws.sh", "")),
    ],
)
def test_weight_streaming_runs_in_its_own_python(typed: str, streams: str) -> None:
    words = typed.split()
    assert with_python_of(words, "weight_streaming") == streams.split()
    assert with_python_of(words, "pipelined") == with_python_of(words, None) == words
    assert streams_weights(words) is (typed == "csrun_wse python-ws run.py")
