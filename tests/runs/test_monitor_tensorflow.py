"""The monitors on real datasets and Keras models."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cs_input_analyzer as csia
from cs_input_analyzer.errors import UsageError
from tests.runs.loops import events
from tests.tf_versions import needs_keras_3

pytestmark = pytest.mark.tf

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

BATCH = 16
SLOW_S = 0.03


def slowly(element: Any, seconds: float) -> Any:
    """The element, after a pause that takes no CPU."""

    def wait(value: Any) -> Any:
        time.sleep(seconds)
        return value

    waited = tf.numpy_function(wait, [element], element.dtype)
    waited.set_shape(element.shape)
    return waited


def batches_of(count: int, *, slow_s: float = 0.0, prefetch: bool = True) -> Any:
    def batch(numbers: Any) -> Any:
        features = tf.reshape(tf.cast(numbers, tf.float32) * 1e-3, [BATCH, 1])
        return (slowly(features, slow_s) if slow_s else features), features

    dataset = tf.data.Dataset.range(count * BATCH).batch(BATCH, drop_remainder=True).map(batch)
    return dataset.prefetch(2) if prefetch else dataset


def model_of(*, step_s: float = 0.0, steps_per_execution: int = 1) -> Any:
    class Slow(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def train_step(self, data: Any) -> Any:
            features, labels = data
            if step_s:
                features = slowly(features, step_s)
            return super().train_step((features, labels))

    model = Slow()
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=steps_per_execution)
    return model


class Counts(keras.Model):
    """A model that counts its steps itself: its optimizer never runs, as that of a GAN with others."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: Any) -> Any:
        return inputs

    def train_step(self, data: Any) -> Any:
        self.steps.assign_add(1.0)
        return {"loss": self.steps}


class Adversarial(Counts):
    """A model with optimizers of its own, one of which runs in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.often, self.seldom = keras.optimizers.SGD(), keras.optimizers.SGD()
        for optimizer in (self.often, self.seldom):
            optimizer.build([self.steps])

    def train_step(self, data: Any) -> Any:
        with tf.control_dependencies([tf.identity(data[0])]):  # as a gradient needs the batch
            self.often.iterations.assign_add(1)
        return super().train_step(data)


def test_a_loop_over_a_dataset_inside_a_tf_function_is_refused() -> None:
    """In there TensorFlow traces the loop without an end."""
    monitor = csia.InputMonitor(tf.data.Dataset.range(3), batch_size=1, console=None)
    numbers = csia.InputMonitor(range(3), batch_size=1, console=None)

    @tf.function(autograph=False)
    def summed(values: Any) -> Any:
        return tf.add_n([tf.cast(value, tf.int64) for _, value in zip(range(9), values, strict=False)])

    with pytest.raises(UsageError, match=r"no end inside a tf\.function"):
        summed(monitor)
    assert int(summed(numbers)) == 3, "what ends by itself may be unrolled"
    assert [int(value) for value in monitor] == [0, 1, 2]


def silent(**options: Any) -> csia.KerasInputMonitor:
    defaults: dict[str, Any] = {"batch_size": BATCH, "console": None, "measure_s": 1.0, "tensorboard": False, "environ": {}}
    return csia.KerasInputMonitor(**(defaults | options))


def fit(model: Any, monitor: csia.KerasInputMonitor, dataset: Any = None, **options: Any) -> None:
    dataset = monitor._dataset if dataset is None else dataset
    model.fit(dataset, verbose=0, shuffle=False, callbacks=[monitor], **options)


# --- Keras -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps_per_execution", "faster", "expected"), [(1, 1.0, "input_bound"), (4, 3.0, "accelerator_bound")])
def test_training_is_compared_with_its_input_alone(
    steps_per_execution: int, faster: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input alone is made `faster` times as fast as training was, so that nothing depends on how busy this host is."""
    from cs_input_analyzer.runs import keras_callback
    from cs_input_analyzer.runs.verdict import InputAlone

    def alone(dataset: Any, batch_size: int, *, max_s: float) -> InputAlone:
        calls = monitor._watch.recorder.rows
        rate = batch_size * sum(call.steps for call in calls) / sum(call.seconds for call in calls)
        return InputAlone(samples_per_s=csia.Estimate.exact(rate * faster), is_overlapped=True)

    monkeypatch.setattr(keras_callback, "measure_alone", alone)
    dataset = batches_of(80)
    monitor = silent(dataset=dataset)
    model = model_of(step_s=0.003, steps_per_execution=steps_per_execution)
    fit(model, monitor, dataset)
    assert monitor.verdict.name == expected, monitor.verdict.why


def test_an_input_that_prepares_nothing_ahead_is_waited_for() -> None:
    """Each step is half input and half model: by the rates alone the input would look idle half of the time."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    dataset = batches_of(40, slow_s=SLOW_S, prefetch=False).with_options(options)
    monitor = silent(dataset=dataset)
    fit(model_of(step_s=SLOW_S), monitor, dataset)
    assert monitor.input_alone.is_overlapped is False
    assert monitor.verdict.name == "input_bound", monitor.verdict.why


def test_measuring_before_gives_a_verdict_while_it_runs(tmp_path: Path) -> None:
    dataset = batches_of(40)
    monitor = silent(dataset=dataset, measure="before", log_every=10, log_dir=tmp_path)
    fit(model_of(step_s=SLOW_S), monitor, dataset)
    first = events(tmp_path, "verdict")[0]
    assert (first["verdict"], first["step"] < 40) == ("accelerator_bound", True)
    assert monitor.input_alone.is_overlapped
    assert monitor.summary().steps == 40


@pytest.mark.parametrize(
    ("batches", "steps_per_execution", "known"),
    [(10, 1, True), (10, 4, True), pytest.param(10, 4, False, marks=needs_keras_3), (7, 16, True)],
)
def test_steps_are_counted_as_they_ran(batches: int, steps_per_execution: int, known: bool) -> None:
    dataset = batches_of(batches)
    if not known:
        dataset = dataset.filter(lambda features, labels: True)  # its cardinality is unknown now
    monitor = silent()
    with pytest.warns(UserWarning, match="ran out of data") if not known else pytest.MonkeyPatch.context():
        fit(model_of(steps_per_execution=steps_per_execution), monitor, dataset, epochs=2)
    assert monitor.summary().steps == 2 * batches
    assert monitor.summary().samples == 2 * batches * BATCH


@pytest.mark.parametrize("steps_per_execution", [1, 10])
def test_steps_are_counted_where_a_model_has_optimizers_of_its_own(steps_per_execution: int) -> None:
    model, monitor = Counts(), silent()
    model.compile(optimizer="sgd", steps_per_execution=steps_per_execution)
    fit(model, monitor, batches_of(10), epochs=2)
    assert monitor.summary().steps == int(model.steps.numpy()) == 20
    assert int(model.optimizer.iterations.numpy()) == 0


@needs_keras_3
def test_the_empty_call_after_the_data_is_seen_by_an_optimizer_of_the_model(tmp_path: Path) -> None:
    """Keras does not know the length, and asks once more than there are batches."""
    model, monitor = Adversarial(), silent(log_dir=tmp_path)
    model.compile()
    with pytest.warns(UserWarning, match="ran out of data"):
        fit(model, monitor, batches_of(10).filter(lambda features, labels: True), epochs=2)
    assert monitor.summary().steps == int(model.often.iterations.numpy()) == 20
    assert [event["steps"] for event in events(tmp_path, "end")][-1] == 20


@pytest.mark.parametrize(("log_every", "expected"), [(8, [8, 16, 20, 28, 36, 40]), (0, [20, 40])])
def test_lines_go_on_in_later_epochs_and_without_a_dataset_there_is_no_verdict(
    log_every: int, expected: list[int], tmp_path: Path
) -> None:
    monitor = silent(log_every=log_every, log_dir=tmp_path)
    fit(model_of(), monitor, batches_of(20), epochs=2)
    monitor.close()
    assert [event["step"] for event in events(tmp_path, "log")] == expected
    assert monitor.summary().rate_per_s
    assert monitor.summary().global_per_s
    assert events(tmp_path, "end")[-1]["verdict"] == monitor.verdict.name == "unknown"


def test_a_callback_goes_after_its_fit_and_leaves_its_folder_free(tmp_path: Path) -> None:
    dataset = batches_of(20)
    for _ in range(2):
        monitor = silent(log_dir=tmp_path, dataset=dataset, measure_s=0.2)
        model_of().fit(dataset, verbose=0, shuffle=False, callbacks=[monitor])
        seen = weakref.ref(monitor)
        del monitor
        gc.collect()
        assert seen() is None
    assert [len(events(tmp_path, kind)) > 1 for kind in ("start", "end")] == [True, True]


def test_an_interrupted_fit_keeps_what_was_seen(tmp_path: Path) -> None:
    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 25:
                raise KeyboardInterrupt

    dataset = batches_of(40)
    monitor = silent(dataset=dataset, log_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        model_of().fit(dataset, verbose=0, shuffle=False, callbacks=[monitor, Interrupts()])
    assert monitor.summary().verdict.name == "unknown"
    assert monitor.summary().global_per_s
    monitor.close()
    assert events(tmp_path, "end")[-1]["global_rate"] > 0


class Days(keras.callbacks.Callback):
    """A clock that jumps by eleven days when a validation begins, or when it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s + time.perf_counter()

    def on_test_begin(self, logs: Any = None) -> None:
        self.now_s += 1e6


def test_validation_and_the_time_between_two_fits_are_no_training(tmp_path: Path) -> None:
    clock = Days()
    monitor, model, dataset = silent(clock=clock, log_dir=tmp_path), model_of(), batches_of(20)
    for _ in range(2):
        callbacks = [monitor, clock]
        model.fit(dataset, validation_data=batches_of(2), epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
        clock.on_test_begin()
    assert monitor.summary().steps == 80
    monitor.close()
    assert all(event["step_s"] < 1e6 for event in events(tmp_path, "step"))
    validations = events(tmp_path, "evaluation")
    assert [event["step"] for event in validations] == [20, 40, 60, 80]
    assert all(1e6 <= event["duration_s"] < 1.1e6 for event in validations)


def test_keras_is_not_made_to_read_the_loss_of_each_step() -> None:
    """It does so for callbacks that have `on_train_batch_end`, or the old name of it."""
    base = keras.callbacks.Callback
    assert csia.KerasInputMonitor.on_train_batch_end is base.on_train_batch_end
    assert csia.KerasInputMonitor.on_batch_end is base.on_batch_end


def test_keras_2_is_not_made_to_read_the_loss_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so for callbacks of batches that do not say that they take tensors."""
    assert silent()._supports_tf_logs
    tf_keras = pytest.importorskip("tf_keras")
    from tf_keras.src.utils import tf_utils

    reads: list[object] = []
    read = tf_utils.sync_to_numpy_or_python_type
    monkeypatch.setattr(tf_utils, "sync_to_numpy_or_python_type", lambda logs: reads.append(logs) or read(logs))
    model, monitor = tf_keras.Sequential([tf_keras.layers.Dense(1)]), silent()
    model.compile(optimizer="sgd", loss="mse")
    fit(model, monitor, batches_of(50))
    assert len(reads) < 10


def test_a_model_of_tf_keras_is_watched() -> None:
    """It is Keras 2, and asks of a callback what one of Keras 3 does not have."""
    tf_keras = pytest.importorskip("tf_keras")
    model, monitor = tf_keras.Sequential([tf_keras.layers.Dense(1)]), silent()
    model.compile(optimizer="sgd", loss="mse")
    fit(model, monitor, batches_of(20), validation_data=batches_of(2), epochs=2)
    model.evaluate(batches_of(2), verbose=0, callbacks=[monitor])
    model.predict(batches_of(2).map(lambda features, labels: features), verbose=0, callbacks=[monitor])
    assert monitor.summary().steps == 40


def test_keras_2_is_told_which_calls_the_callback_takes() -> None:
    monitor = silent()
    assert monitor._implements_train_batch_hooks()
    assert not monitor._implements_test_batch_hooks()
    assert not monitor._implements_predict_batch_hooks()


# --- the input alone -------------------------------------------------------------------------------------------------------------


def measured(dataset: Any, seconds: float = 0.5) -> Any:
    from cs_input_analyzer.runs.in_process import measure_alone

    return measure_alone(dataset, BATCH, max_s=seconds)


def test_a_file_cache_is_left_alone_until_it_is_complete(tmp_path: Path) -> None:
    dataset = batches_of(20).cache(str(tmp_path / "cache"))
    assert "writes files" in measured(dataset).missing
    assert list(tmp_path.iterdir()) == []
    for _ in dataset:
        pass
    assert measured(dataset).samples_per_s is not None


@pytest.mark.parametrize(
    ("build", "is_measured"),
    [
        (lambda: tf.data.Dataset.range(0).batch(BATCH), False),
        (lambda: tf.data.Dataset.range(90).map(lambda number: 1 // (number - 50)).batch(1), False),
        (lambda: tf.data.Dataset.range(90), True),  # of single numbers: the declared batch size counts
        (lambda: [1, 2, 3], False),
        (lambda: batches_of(5, slow_s=0.2), False),
    ],
)
def test_what_cannot_be_measured_says_why(build: Callable[[], Any], is_measured: bool) -> None:
    found = measured(build())
    assert (found.samples_per_s is not None) is is_measured
    assert bool(found.missing) is not is_measured


# --- odd batches ----------------------------------------------------------------------------------------------------------------


def ragged_of(count: int) -> Any:
    return tf.data.Dataset.range(1, count * BATCH + 1).map(lambda number: tf.range(number % 5)).ragged_batch(BATCH)


def sparse_of(count: int) -> Any:
    one = tf.sparse.SparseTensor([[3]], [1.0], [10])
    return tf.data.Dataset.from_tensors(one).repeat(count * BATCH).batch(BATCH)


def with_none(batch: Any) -> Any:
    return batch, None, {"weight": None, "x": batch}


ODD: dict[str, Callable[[int], Any]] = {
    "ragged": ragged_of,
    "sparse": sparse_of,
    "None": lambda count: tf.data.Dataset.range(count * BATCH).batch(BATCH).map(with_none),
    "dict": lambda count: tf.data.Dataset.zip({"a": {"b": ragged_of(count)}, "c": sparse_of(count)}),
    "optional": lambda count: tf.data.Dataset.range(count).map(lambda number: tf.experimental.Optional.from_value(number)),
    "dataset": lambda count: tf.data.Dataset.range(count * BATCH).window(BATCH),
    "strings": lambda count: tf.data.Dataset.range(count * BATCH).map(tf.strings.as_string).batch(BATCH),
}
# Of no dataset, as TensorFlow makes none of them.
PLAIN: dict[str, Callable[[int], Any]] = {
    "only None": lambda count: [(None, None)] * count,
    "empty dict": lambda count: [{}] * count,
}
# Their batches have no size of their own: the declared one counts.
WITHOUT_SIZE = (*PLAIN, "optional", "dataset")


@pytest.mark.parametrize("batch_size", [BATCH, None])
@pytest.mark.parametrize("kind", [*ODD, *PLAIN])
def test_a_loop_gets_odd_batches_as_they_are_and_they_are_counted(
    kind: str, batch_size: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = {**ODD, **PLAIN}[kind](9)
    monitor = csia.InputMonitor(dataset, batch_size, log_dir=tmp_path, log_every=2, console=None, environ={})
    seen = list(monitor)
    monitor.close()
    assert caplog.records == []
    assert len(seen) == len(list(dataset)) == 9
    for batch, plain in zip(seen, dataset, strict=True):
        tf.nest.assert_same_structure(batch, plain, expand_composites=True)
    is_counted = batch_size is not None or kind not in WITHOUT_SIZE
    assert monitor.summary().steps == 9
    assert monitor.summary().samples == (9 * BATCH if is_counted else None)


# --- a loop of one's own ---------------------------------------------------------------------------------------------------------


def test_scalars_are_there_for_tensorboard(tmp_path: Path) -> None:
    with csia.InputMonitor(batches_of(40), BATCH, log_dir=tmp_path, console=None, environ={}) as monitor:
        assert len(monitor) == 40
        for step, (features, _) in enumerate(monitor, start=1):
            loss = tf.reduce_mean(features)
            if step % 10 == 0:
                monitor.log(loss=loss)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    seen = {(value.tag, event.step) for event in tf.compat.v1.train.summary_iterator(str(file)) for value in event.summary.value}
    tags = ("local_samples_per_sec", "avg_samples_per_sec", "input_wait_ratio")
    assert seen == {(tag, step) for tag in tags for step in (10, 20, 30, 40)}


def test_the_hook_of_sessions_warns_and_lets_them_run(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"watches nothing.*csia\.InputMonitor\(.*csia\.KerasInputMonitor"):
        hook = csia.InputMonitorHook(BATCH, lambda: None, measure_s=1.0, log_dir=tmp_path, any_other=3)
    with tf.Graph().as_default():
        number = tf.constant(7)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            assert session.run(number) == 7
    assert list(tmp_path.iterdir()) == []
