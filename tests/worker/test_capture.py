"""A user's own script: its command line read, every place where it takes data found, one of them captured; nothing trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_input_analyzer.cli import main
from cs_input_analyzer.cli.original import _nodes
from cs_input_analyzer.engines import script as search
from cs_input_analyzer.engines.bootstrap import environment
from cs_input_analyzer.engines.script import find_captures, pick
from cs_input_analyzer.engines.starting import WorkerKind, WorkerStarter
from cs_input_analyzer.errors import InputFunctionError, TargetError, UsageError
from cs_input_analyzer.model.tf_config import announced_addresses, of_worker
from cs_input_analyzer.records import Capture, CaptureCandidate
from cs_input_analyzer.worker.capture import Script, from_command, is_script, parse_script
from cs_input_analyzer.worker.capture.imports import is_shape_peek
from tests.functional.running import BRIEF, ONE_CPU, ROOT, SMALL_NODES, ran
from tests.tf_versions import HAS_ESTIMATORS

pytestmark = pytest.mark.tf

SCRIPTS = Path(__file__).parents[1] / "functional" / "scripts"
SECONDS = 60.0
# In a worker, the target leads to a Dataset; what it gives first says which. As such workers are, each is forked from one process
# that has imported TensorFlow.
WORKERS = """
import json, os, sys, tempfile, traceback
from pathlib import Path
import tensorflow
from cs_input_analyzer.worker import capture, isolation, stages
from cs_input_analyzer.tfdata import load
assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked whole"

def work(target, mode, folder, packages, times):
    os.chdir(folder["users"])
    os.environ |= {"TMPDIR": folder["temporary"], "TF_CONFIG": folder["tf_config"]}
    tempfile.tempdir = None
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder[name], os.O_WRONLY | os.O_CREAT), number)

    def life():
        assert isolation.here().level == "private copies", isolation.here()
        capture.beside_scripts(work_on)

    def work_on():
        try:
            call = load.Call(params=None, mode=mode, num_workers=2, worker_index=0)
            with capture.standing_in(packages, lambda name: None):
                with capture.setting_up():
                    for _ in range(times):
                        found = capture.captured(target)
                dataset = load.build_dataset(found, call)
            print("FIRST", next(iter(dataset)), flush=True)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    temporary = Path(folder["temporary"])
    isolation.run_inside(isolation.Wanted(launch=temporary, place=temporary), os.getppid(), life)

print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        work(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
FirstBatch = Callable[..., str]
# As workers are told: a strategy of many would wait for the other one, and an Estimator wants a chief.
OF_TWO = of_worker(announced_addresses(["127.0.0.1"], 2), 1)


@pytest.fixture(scope="module")
def first_batch() -> Iterator[FirstBatch]:
    """What a worker that runs the script gets first, as text."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-c", WORKERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
        env={**environment(Path("/nowhere")), "PYTHONPATH": str(ROOT), **one_thread},
    )
    assert process.stdout.readline() == "ready\n"
    stdin, stdout = process.stdin, process.stdout

    def first(found: Script, mode: str = "train", *packages: str, times: int = 1) -> str:
        with tempfile.TemporaryDirectory() as name:
            (temporary := Path(name, "temporary")).mkdir()  # workers have one of their own
            out, err = Path(name, "out"), Path(name, "err")
            folder = {"users": os.getcwd(), "temporary": str(temporary), "out": str(out), "err": str(err), "tf_config": OF_TWO}
            print(json.dumps([found.target, mode, folder, packages, times]), file=stdin, flush=True)
            status = stdout.readline()
            assert status == "0\n", err.read_text(errors="replace")[-3000:]
            told = out.read_text(errors="replace")
        assert "one step of training" not in told
        return told.rpartition("FIRST")[2]

    with process:
        yield first
        stdin.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("users")


@pytest.fixture(scope="module")
def starter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerStarter]:
    """Forks the processes of all searches from one import of TensorFlow. They run in the folder where it began."""
    with closing(WorkerStarter(tmp_path_factory.mktemp("starter"), WorkerKind())) as made:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            made.wait(SECONDS)
        assert made.forks
        yield made


@pytest.fixture
def users(folder: Path, starter: WorkerStarter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of the user's, to be in; nothing may be in it afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(starter, "close", lambda: None)
    monkeypatch.setattr(search, "WorkerStarter", lambda scratch, kind: starter)
    yield folder
    assert list(folder.rglob("*")) == [], "the script trained, or wrote what comes after training"


def script(name: str, *arguments: str) -> Script:
    return from_command(["python", str(SCRIPTS / name), *arguments])


# --- the command line --------------------------------------------------------------------------------------------------------

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12), max_size=6)


@given(arguments=WORDS, number=st.none() | st.integers(1, 99), module=st.sampled_from(["run", "pkg.train"]))
def test_a_target_comes_back_as_it_was(arguments: list[str], number: int | None, module: str) -> None:
    found = Script(number=number, python="python3", file=None, module=module, arguments=tuple(arguments))
    assert is_script(found.target)
    assert parse_script(found.target) == found


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["python", "run.py", "--mode=train", "-m", "x"], ("run.py", None, ("--mode=train", "-m", "x"))),
        (["/opt/bin/python3.11", "-u", "-W", "ignore", "run.py"], ("run.py", None, ())),
        (["python-ws", "-m", "pkg.run", "--params", "a b"], (None, "pkg.run", ("--params", "a b"))),
    ],
)
def test_what_python_is_told(words: list[str], read: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.py").touch()
    monkeypatch.chdir(tmp_path)
    found = from_command(words)
    assert (found.file, found.module, found.arguments) == read


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bash", "run.sh"], "is not Python"),
        (["python", "nowhere.py"], "no file nowhere.py"),
        (["python"], "which script"),
        (["python", "-m"], "which script"),
        (["python", "-c", "pass"], "cannot be run here"),
        (["python", "-m", "not a module"], "no name of a module"),
    ],
)
def test_a_command_that_is_no_script(words: list[str], says: str) -> None:
    with pytest.raises(TargetError, match=says):
        from_command(words)


@pytest.mark.parametrize("target", ["script:", "script:x:python run.py", "script:1:", "script:1:python 'run.py"])
def test_a_target_that_is_mangled(target: str) -> None:
    with pytest.raises(TargetError):
        parse_script(target)


def test_help_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["python", "--help-all"]) == 0
    told = capsys.readouterr().out
    assert all(
        option in told for option in ("--available-nodes", "--available_nodes", "--avail_nodes", "--mount_dirs", "--capture")
    )


def test_the_nodes_of_the_site_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEF_NODES", "4")
    nothing = {"nodes": None, "cluster": None, "launcher": "local"}
    assert (_nodes(None, nothing), _nodes(3, nothing), _nodes(None, {**nothing, "cluster": "local"})) == (4, 3, None)


def test_pick_names_what_there_is() -> None:
    found = Capture(
        command="python run.py",
        picked=1,
        candidates=(CaptureCandidate(number=1, kind="fit", call="Model.fit", source="run.py:3", code=None, mode="train"),),
    )
    assert pick(found, None) == pick(found, 1) == found
    with pytest.raises(UsageError, match=r"1: Model.fit at run.py:3"):
        pick(found, 2)


@pytest.mark.parametrize(
    ("code", "is_look"),
    [
        ("batch = next(iter(dataset))", True),
        ("features, labels = next(iter(dataset))", True),
        ("shape: object = next(iter(dataset))[0].shape", True),
        ("for _ in range(3):\n    batch = next(iter(dataset))", False),
        ("batch = train(next(iter(dataset)))", False),
        ("iterator = iter(dataset)", False),
        ("for batch in dataset.map(f):\n    if done: break", False),
        ("for batch in dataset: break", True),
        ("for epoch in range(3):\n    for batch in dataset: break", False),
        ("batch = next(dataset.as_numpy_iterator())", True),
        ("batch = next(", False),
    ],
)
def test_a_look_at_the_data_is_no_training(code: str, is_look: bool, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(code)
    assert is_shape_peek(f"{tmp_path / 'run.py'}:{len(code.splitlines())}") is is_look


# --- the script --------------------------------------------------------------------------------------------------------------


START = "[ 0  1  2  3  4"
FIRST_FIVE = [(1, "train", START)]
# Those that go on without data, and one that does not.
IN_TURN = ("for", "enumerate", "function", "next")
ODD, EVEN = "[ 0  2  4  6  8 10 12 14]", "[0 1 2 3 4 5 6 7]"
OF_2019 = "of 2019, whose Estimator gives the batch size of the mode"
# The command, packages that are stood in for by name, the calls that are found, stand-ins, and what the data of some begin with.
STYLES: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[str], set[str], list[tuple[int, str, str]]]] = {
    "an Estimator": (
        ("estimator_style.py", "--mode", "train", "--batch", "8"),
        *((), ["Estimator.train", "Estimator.evaluate"], {"tensorflow.estimator"}, [(1, "train", ODD), (2, "eval", EVEN)]),
    ),
    "the vendor's, compiled": (
        ("vendor_style.py", "--mode=validate_only"),
        *((), ["Estimator.compile"], {"cerebras.tf.cs_estimator"}, [(1, "train", "32")]),
    ),
    OF_2019: (
        ("style_of_2019.py",),
        *(("many_accelerators",), ["TPUEstimator.train", "TPUEstimator.evaluate"]),
        {"tensorflow.contrib.tpu.python.tpu", "many_accelerators.tensorflow"},
        [(1, "train", "[ 0  3  6  9"), (2, "eval", EVEN)],
    ),
    "Keras after peeks": (("keras_style.py",), (), ["peek", "peek", "fit", "evaluate"], set(), [(3, "train", "shape=(32, 1)")]),
    "removes its data at its end": (("removes_its_data.py",), (), ["fit"], set(), [(1, "train", "shape=(2, 1)")]),
    "catches everything": (("swallows.py",), (), [""], set(), FIRST_FIVE),
    "distribute": (("loop_style.py", "distribute"), (), ["distribute"], set(), FIRST_FIVE),
    "loops one after the other": (
        ("loop_style.py", *IN_TURN),
        *((), ["loop"] * len(IN_TURN), set(), [(number, "train", START) for number in range(1, len(IN_TURN) + 1)]),
    ),
    **{style: (("loop_style.py", style), (), ["loop"], set(), FIRST_FIVE) for style in ("graph", "until", "thread", "fork")},
}


LATER = {"removes its data at its end", "catches everything", "distribute", "until", "thread", "fork", OF_2019}


@pytest.mark.parametrize(
    "style",
    [pytest.param(style, id=name, marks=[pytest.mark.long] if name in LATER else []) for name, style in STYLES.items()],
)
def test_a_script_is_captured_where_it_takes_data(users: Path, first_batch: FirstBatch, style: tuple[Any, ...]) -> None:
    """Also where eager execution is off, and where an input function returns the tensors of an iterator."""
    (name, *arguments), packages, calls, stand_ins, begins = style
    one = script(name, *arguments)
    found, _ = find_captures(one, SECONDS, packages=packages)
    assert len(found.candidates) == len(calls)
    for candidate, call in zip(found.candidates, calls, strict=True):
        assert call in f"{candidate.kind} {candidate.call}"
        assert candidate.source.startswith(f"{SCRIPTS / name}:")
    assert found.picked == next(number for number, call in enumerate(calls, start=1) if call != "peek")
    there = {"tensorflow.estimator"} if HAS_ESTIMATORS else set()
    assert stand_ins - there <= set(found.stand_ins)
    for number, mode, first in begins:
        assert first in first_batch(replace(one, number=number), mode, *packages)


PARTIAL = """
import functools
import tensorflow as tf

def input_fn(params, mode):
    return tf.data.Dataset.range(100).batch(params["batch_size"] if mode == "mine" else 1)

estimator = tf.estimator.Estimator(lambda features, params: None, model_dir="model_dir", params={"batch_size": 2})
estimator.train(functools.partial(input_fn, params={"batch_size": 5}, mode="mine"), steps=1)
"""


def test_an_estimator_gives_no_argument_that_a_partial_holds(users: Path, tmp_path: Path, first_batch: FirstBatch) -> None:
    file = tmp_path / "partial.py"
    file.write_text(PARTIAL)
    found, _ = find_captures(from_command(["python", str(file)]), SECONDS)
    assert [one.call for one in found.candidates] == ["Estimator.train"]
    assert "[0 1 2 3 4]" in first_batch(from_command(["python", str(file)], number=1))


def test_a_script_that_changes_its_folder_runs_again(
    tmp_path: Path, first_batch: FirstBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a change of its source is tried: its name counts from the folder where it began."""
    monkeypatch.chdir(tmp_path)
    Path("users").mkdir()
    Path("moves.py").write_text(
        "import os\nimport tensorflow as tf\nos.chdir('users')\nfor number in tf.data.Dataset.range(5).batch(5):\n    pass\n"
    )
    assert "[0 1 2 3 4]" in first_batch(from_command(["python", "moves.py"], number=1), times=2)


EARLY = {
    "a peek and a process": """
for features, labels in data.take(1):
    print(features.shape)
subprocess.run(["true"], check=True)
taken = data
""",
    "a split": """
taken, rest = tf.keras.utils.split_dataset(data, left_size=0.5)
taken = taken.batch(4)
""",
}


@pytest.mark.parametrize("early", EARLY)
def test_what_comes_before_the_training_is_not_the_training(
    users: Path, tmp_path: Path, first_batch: FirstBatch, early: str
) -> None:
    """But behind it the script ends where it would start a process."""
    file = tmp_path / "early.py"
    file.write_text(
        "import subprocess\nimport tensorflow as tf\n"
        "data = tf.data.Dataset.range(100).map(lambda number: (tf.cast(number, tf.float32)[None], number)).batch(4)\n"
        f"{EARLY[early]}"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\nmodel.fit(taken)\n"
        "subprocess.run(['touch', 'trained'])\nmodel.evaluate(data)\n"
    )
    one = from_command(["python", str(file)])
    found, _ = find_captures(one, SECONDS)
    kinds = [candidate.kind for candidate in found.candidates]
    assert kinds == [*(["peek"] if "peek" in early else []), "fit"]
    assert found.picked == len(kinds)
    (note,) = found.notes
    assert f"it was about to start a process or open a connection at {file}:" in note
    assert "shape=(4," in first_batch(replace(one, number=found.picked))


ACCELERATORS = """
import sys
import many_accelerators.keras as many
import tensorflow as tf
many.init()
data = tf.data.Dataset.range(1000).map(lambda x: (tf.cast([x], tf.float32), [0.0]))
if "--shard" in sys.argv:
    data = data.shard(many.size(), many.rank())
rate = tf.keras.optimizers.schedules.ExponentialDecay(0.001 * many.size(), 100, 0.9)
optimizer = many.DistributedOptimizer(tf.optimizers.Adam(rate if "--decay" in sys.argv else 0.001 * many.size()))
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(optimizer=optimizer, loss="mse", metrics=[many.Metric()])
history = model.fit(data.batch(4), epochs=2, callbacks=[many.callbacks.Broadcast(0)], verbose=1 if many.rank() == 0 else 0)
print("loss %.3f" % history.history["loss"][-1], many.allreduce(float(history.history["loss"][0])))
model.evaluate(data.batch(2))
"""


@pytest.mark.long
@pytest.mark.parametrize(("more", "ends_epochs"), [("epochs=2", True), ("epochs=2, steps_per_epoch=5", False)])
def test_a_fit_without_steps_takes_the_data_anew_in_each_epoch(users: Path, tmp_path: Path, more: str, ends_epochs: bool) -> None:
    (file := tmp_path / "fits.py").write_text(
        "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        f"model.fit(tf.data.Dataset.range(20).batch(4), {more})\n"
    )
    found, _ = find_captures(from_command(["python", str(file)]), SECONDS)
    assert [one.ends_epochs for one in found.candidates] == [ends_epochs]


def test_a_loop_until_the_end_of_the_data_takes_them_anew_in_each_epoch(users: Path, tmp_path: Path) -> None:
    """The fix for data that end would be `repeat`, with which such a loop never ends."""
    (file := tmp_path / "loops.py").write_text(
        "import tensorflow as tf\ndata = tf.data.Dataset.range(20).batch(4)\n"
        "for batch in data:\n    pass\n"
        "for epoch in range(2):\n    for step, batch in enumerate(data):\n        if step == 3:\n            break\n"
        "@tf.function\ndef train():\n    for batch in data:\n        tf.print(batch)\ntrain()\n"
        "for step, batch in enumerate(data):\n    if step == 3:\n        pass\n    else:\n        break\n"
        "iterator = iter(data)\nwhile True:\n    next(iterator)\n"
    )
    found, _ = find_captures(from_command(["python", str(file)]), SECONDS)
    assert [(one.source.rpartition(":")[2], one.ends_epochs) for one in found.candidates] == [
        ("3", True),
        ("6", True),
        ("11", True),
        ("14", False),
        ("19", False),
    ]


@pytest.mark.parametrize("options", [[], pytest.param(["--decay"], marks=pytest.mark.long)])
def test_keras_with_an_optimizer_of_a_package_that_is_missing(users: Path, tmp_path: Path, options: list[str]) -> None:
    """It trains nothing, so it may be missing; a share of the data that depends on it may not."""
    file = tmp_path / "accelerators.py"
    file.write_text(ACCELERATORS)
    found, _ = find_captures(from_command(["python", str(file), *options]), SECONDS, packages=("many_accelerators",))
    assert [one.kind for one in found.candidates] == ["fit", "evaluate"]
    assert found.notes == ()
    with pytest.raises(InputFunctionError, match=r"many_accelerators\.keras\.size\(\.\.\.\) is only a stand-in"):
        find_captures(from_command(["python", str(file), "--shard"]), SECONDS, packages=("many_accelerators",))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("odd_ends.py exit", "give --params"),
        ("odd_ends.py nothing", "looked for: train"),
        pytest.param("odd_ends.py die", "signal 9", marks=pytest.mark.long),
        pytest.param("odd_ends.py numpy", "numpy.ndarray, no tf.data.Dataset", marks=pytest.mark.long),
        ("style_of_2019.py", r"No module named 'many_accelerators'.*give --stand-in many_accelerators"),
    ],
)
def test_a_script_that_takes_no_data(users: Path, words: str, says: str) -> None:
    with pytest.raises(InputFunctionError, match=says):
        find_captures(script(*words.split()), SECONDS)


@pytest.mark.parametrize(
    ("loop", "ends_epochs"),
    [
        ("for epoch in range(2):\n    for batch in given:\n        if epoch == 7:\n            break\n", True),
        ("for step, batch in enumerate(given):\n    if step == 3:\n        break\n", False),
        ("batches = iter(given)\nwhile True:\n    next(batches)\n", False),
    ],
)
def test_a_loop_over_what_a_strategy_distributes_is_seen_by_its_name(
    users: Path, tmp_path: Path, loop: str, ends_epochs: bool
) -> None:
    (file := tmp_path / "distributes.py").write_text(
        "import tensorflow as tf\nstrategy = tf.distribute.get_strategy()\ndata = tf.data.Dataset.range(20).batch(4)\n"
        f"given = strategy.experimental_distribute_dataset(data)\n{loop}"
    )
    found, _ = find_captures(from_command(["python", str(file)]), SECONDS)
    assert [(one.kind, one.ends_epochs) for one in found.candidates] == [("distribute", ends_epochs)]


@pytest.mark.parametrize(("message", "is_told"), [("no vocabulary", False), ("needs a GPU", True)])
def test_a_failure_is_told_what_is_hidden_if_it_may_come_of_that(users: Path, tmp_path: Path, message: str, is_told: bool) -> None:
    (file := tmp_path / "fails.py").write_text(f"raise ValueError({message!r})\n")
    with pytest.raises(InputFunctionError, match=message) as caught:
        find_captures(from_command(["python", str(file)]), SECONDS)
    assert ("accelerators are hidden from it" in str(caught.value)) is is_told


def test_what_a_script_started_ends_with_it(users: Path) -> None:
    """Also in a session of its own, where the signal to the script's group does not reach it."""
    seconds = "98.7654"
    with pytest.raises(InputFunctionError, match="without taking data"):
        find_captures(script("odd_ends.py", "daemon", seconds), SECONDS)
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", seconds]]


@pytest.mark.long
def test_a_script_that_hangs(users: Path) -> None:
    with pytest.raises(InputFunctionError, match="hung: it had taken no data after 40 s") as caught:
        find_captures(script("odd_ends.py", "hang"), 40.0)
    assert "odd_ends.py" in caught.value.details


def test_a_module_of_a_package(users: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python -m` runs it: relative imports work, and its own arguments reach it."""
    package = tmp_path / "elsewhere" / "training"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data.py").write_text("import tensorflow as tf\n\ndef numbers(n):\n    return tf.data.Dataset.range(100).batch(n)\n")
    (package / "run.py").write_text(
        "import sys\nfrom .data import numbers\n"
        "assert __name__ == '__main__' and sys.argv[0] == __file__\n"
        "for batch in numbers(int(sys.argv[1])):\n    raise SystemExit('trained')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setattr(search, "WorkerStarter", WorkerStarter)  # in a process of its own, with this variable
    monkeypatch.syspath_prepend(str(package.parent))
    found, _ = find_captures(from_command(["python", "-m", "training.run", "7"]), SECONDS)
    assert [one.source for one in found.candidates] == [f"{package / 'run.py'}:4"]


def test_a_script_that_fails_ends_with_3(users: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["python", str(SCRIPTS / "odd_ends.py"), "raise"]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "KeyError: 'train_input'" in told.err
    assert f'File "{SCRIPTS / "odd_ends.py"}", line 11' in told.err
    assert "/cs_input_analyzer/" not in "".join(line for line in told.err.splitlines() if "File " in line)


@pytest.mark.long
@pytest.mark.slow
def test_the_original_form_of_a_vendors_script(users: Path, tmp_path: Path) -> None:
    file, folder = SCRIPTS / "vendor_style.py", tmp_path
    options = ["--full", "--avail_nodes=3", "--mount_dirs", "/data,/models", "--container", "tf.sif", "--stand-in", "lost_package"]
    words = [*ONE_CPU, *SMALL_NODES, *options, "--json", str(folder / "run.json"), "python", str(file), "--mode=validate_only"]
    defaults = {"DEF_NODES": "2", "DEF_TASKS": "1", "DEF_CPUS": "2"}
    done = ran([sys.executable, "-m", BRIEF, *words], Path.cwd(), TMPDIR=str(folder), **defaults)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in folder.iterdir() if path.name not in ("run.json", "users")] == []
    run, told = json.loads((folder / "run.json").read_text()), done.stderr + done.stdout
    assert run["cluster"]["nodes"] == 3
    assert run["verdict_layout"] is None  # without a demand
    assert run["options"]["current"] == {"nodes": 2, "tasks_per_node": 1, "cpus_per_task": 2}
    assert run["options"]["mount_dirs"] == ["/data", "/models"]
    assert run["options"]["train_command"] == f"python {file} --mode=validate_only"  # as typed
    assert f"python {file} --mode=train" in run["recommendation"]["launch"]["srun"]
    assert run["options"]["max_seconds"] == 40.0
    assert run["capture"]["picked"] == 1
    assert run["options"]["stand_ins"] == ["lost_package"]
    assert "cerebras.tf.cs_estimator" in run["capture"]["stand_ins"]
    assert "cerebras.tf.cs_estimator" in run["pipeline"]["stand_ins"]
    assert "cerebras.tf.cs_estimator" in told
    assert "the training never ran" in " ".join(told.split())
    assert run["pipeline"]["batch_size"] == 32
    lines = file.read_text().splitlines()
    sources = {op["name"]: op["source"] for op in run["pipeline"]["ops"]}
    assert all(source.startswith(f"{file}:") for source in sources.values())
    assert ".map(" in lines[int(sources["map"].rpartition(":")[2]) - 1]
    assert run["measurements"][0]["samples_per_s"]["estimate"] > 0
