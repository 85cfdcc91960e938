"""Rules of sharding: the division of the files among workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cs_input_analyzer.model.amounts import FILES_PER_WORKER, files_wanted
from cs_input_analyzer.model.evidence import finding, share_of, workers_of
from cs_input_analyzer.records import Case, Finding, Op, Scalar, Severity
from cs_input_analyzer.tfdata.lineage import AUTO, AUTO_SHARD, DATA, FILE, deals_out_files, reads_names_only, upstream
from cs_input_analyzer.tfdata.op_kinds import BATCHING, SHUFFLES, TRANSFORMS
from cs_input_analyzer.tfdata.op_traits import first_of, number_of
from cs_input_analyzer.tfdata.source.code import argument_of, count_calls, with_argument
from cs_input_analyzer.tfdata.threads import reader_ops


def fewer_files_than_workers(case: Case) -> Iterator[Finding]:
    """The plan has more workers than the pipeline has files to share out.

    The input function gives each worker its own files, or `tf.distribute` does by the `auto_shard_policy`. A worker
    without a file has nothing to stream: it fails at start, or the accelerator waits for it for ever.

    Fix: write the dataset into at least as many files as there are workers. A multiple of that number keeps the shards
    even.

    Silent without a plan, for pipelines that do not shard, and if there are enough files. Silent for a `shard` of
    records (after the readers, or by the policy `DATA`). Silent for a dataset of TensorFlow Datasets, whose folder is
    named by version (`mnist/3.0.1`): its files belong to its description.
    """
    files, plan = case.pipeline.files, case.plan
    if files is None or plan is None or not case.is_sharded or re.search(r"/\d+\.\d+\.\d+/?$", files.directory or ""):
        return
    workers = plan.input_workers
    if plan.meets_demand is False and plan.limited_by == "files":
        workers = max(workers, files.count + 1)
    if workers <= files.count:
        return
    shard = first_of(case.pipeline.ops, ("Shard",)) or _auto_sharded(case)
    wanted = FILES_PER_WORKER * workers
    message = f"the demand needs more input workers than the {files.count} files can be shared out to"
    fix = f"write the dataset into {wanted} files or more"
    evidence = {"files": files.count, "workers": workers, "files_wanted": wanted}
    yield finding(shard, message, fix, evidence, is_warning=True)


def no_shard(case: Case) -> Iterator[Finding]:
    """The plan has several workers, and all of them stream the same data.

    A worker that takes no part of its own reads every file. The accelerator then sees each sample once per worker and
    pass, and each node caches the whole dataset. Without an unseeded shuffle all workers deliver the same batch at the
    same time. The finding says so if the workers of one launch began with the same batch.

    Fix: `files = files.shard(num_workers, index)` with the numbers of the running launch (from `TF_CONFIG` or a
    `tf.distribute` input context), directly after the list of file names and before anything reads them. Write more files
    first if there are fewer than workers: a single file cannot be divided.

    A warning, because it may be intended (every worker shuffles all of the data). An error if the code does shard, but
    not by the launch: it took one shard of one although several workers were announced, or Python code that divides the
    files gave all of them to every worker. A warning if the number of shards matches neither the plan nor the measured
    launch.

    If no files were found, as with a Python generator, it fires if the workers of one launch began with the same batch.

    Silent without a plan or with one worker. Silent if workers read their own files (a `shard` op, or Python code).
    Silent if the options leave sharding to `tf.distribute` (see CSI312).
    """
    workers = case.plan.input_workers if case.plan is not None else 1
    if workers < 2 or _auto_sharded(case) is not None:
        return
    if case.pipeline.files is None:
        yield from _same_batches(case, workers)
        return
    shard = first_of(case.pipeline.ops, ("Shard",))
    if shard is not None:
        yield from _wrong_number(case, shard, workers)
    elif not case.is_sharded:
        announced = max((m.num_workers for m in case.measurements if m.measured_workers), default=1)
        tried = f"seen in a launch of {announced}" if announced > 1 else "no launch of several was measured"
        if (alike := _launch_of_one_batch(case)) is not None:
            tried = f"in a launch of {alike} they began with one batch"
        severity: Severity = "warning" if announced > 1 else "info"
        same = "all stream the same files" if announced > 1 else "stream the same files as far as the graph tells"
        message = f"the {workers} workers of the plan {same} ({tried}{_context_tried(case)})"
        yield _unsharded(case, severity, message, announced, workers)
    else:
        for measurement in case.measurements:
            counts = [worker.file_count for worker in measurement.measured_workers]
            if len(counts) > 1 and all(count == case.pipeline.files.count for count in counts):
                message = f"the code divides the files, but in a launch of {measurement.num_workers} each worker saw all of them"
                yield _unsharded(case, "error", message, measurement.num_workers, workers)
                return


def _same_batches(case: Case, workers: int) -> Iterator[Finding]:
    """Yield a finding if the workers of a launch began with the same batch. Use it for pipelines without files."""
    announced = _launch_of_one_batch(case)
    if announced is not None:
        began = f"in a launch of {announced} they began with one batch{_context_tried(case)}"
        message = f"the {workers} workers of the plan all stream the same data: {began}"
        yield _unsharded(case, "warning", message, announced, workers)


def _launch_of_one_batch(case: Case) -> int | None:
    """Return the workers of a launch whose workers began with the same batch. Return None without one."""
    for measurement in case.measurements:
        digests = [worker.first_batch_digest for worker in measurement.measured_workers]
        if len(digests) > 1 and digests[0] is not None and len(set(digests)) == 1:
            return measurement.num_workers
    return None


def _wrong_number(case: Case, shard: Op, workers: int) -> Iterator[Finding]:
    """Yield a finding if a `shard` has another number than the first launch, which built this graph."""
    number = shard.parameters.get("num_shards")
    announced = case.measurements[0].num_workers if case.measurements else None
    if announced is None or not isinstance(number, int) or number in (announced, workers):
        return
    if number == 1:
        message = f"{announced} workers were announced, but the code took one shard of one: every worker streams all files"
        yield _unsharded(case, "error", f"{message}{_context_tried(case)}", announced, workers, shard)
    else:
        divided = "files" if deals_out_files(case.pipeline.ops) else "samples"
        message = f"the {divided} are divided by {number} whatever the launch, and the plan has {workers} workers"
        yield _unsharded(case, "warning", message, announced, workers, shard)


def _context_tried(case: Case) -> str:
    """Return words about the input context that was given or left at its default. Return "" without one."""
    uses = {"given": "; called with input_context", "left": "; its input_context was left at its default, try --input-context"}
    return uses.get(case.pipeline.input_context or "", "")


def _unsharded(case: Case, severity: Severity, message: str, announced: int, workers: int, shard: Op | None = None) -> Finding:
    source = shard or next((op for op in case.pipeline.ops if op.within is None), None)
    files, context = case.pipeline.files, case.pipeline.input_context
    where = "input_context" if context == "given" else "TF_CONFIG"
    fix = f"shard the list of file names by the number and index of the workers in {where}, before anything reads them"
    if files is not None and files.count < workers:
        fix = f"write the data into {files_wanted(files, workers)} files or so, and {fix}"
    if files is None:
        fix = f"give each worker its own part of the samples, by the number and index of the workers in {where}"
    if context == "left":
        fix = f"measure with --input-context what the function does with it, or {fix}"
    evidence = {"workers": workers, "workers_announced": announced, "files": files.count if files else None}
    return finding(source, message, fix, evidence, severity=severity)


def shard_after_unseeded_shuffle(case: Case) -> Iterator[Finding]:
    """A `shard` comes after a shuffle without a seed, so the shards of the workers overlap and miss data.

    `shard(n, i)` takes every n-th element of its input, which must be the same sequence in every worker. `list_files`
    shuffles unless `shuffle=False` is given, with a different random seed in each process. With many workers, more than
    a third of the files (1 / e) are then read by no worker in a pass, and others twice or more. Nothing fails, but the
    model trains on other data.

    Fix: `list_files(pattern, shuffle=False)`, or the same `seed=` for all workers; or shard first and shuffle after it.
    A shuffle after the shard needs no seed.

    Silent if the shuffle has a seed (its own, or that of `tf.random.set_seed`), or comes after the shard. Silent if
    only one worker streams.
    """
    if case.plan is not None and case.plan.input_workers < 2:
        return
    for shard in case.pipeline.ops:
        if shard.kind != "Shard":
            continue
        shuffles = [op for op in upstream(shard, case.pipeline.ops) if op.kind in SHUFFLES]
        # TensorFlow writes a missing seed as the pair (0, 0).
        shuffle = next((op for op in shuffles if (op.parameters.get("seed"), op.parameters.get("seed2")) == (0, 0)), None)
        if shuffle is None:
            continue
        after, code = None, shuffle.code
        lists_alike = argument_of(code, "list_files", "shuffle") == "False" or argument_of(code, "list_files", "seed") is not None
        if count_calls(code, "list_files") and not lists_alike:
            after = with_argument(code, "list_files", "shuffle", "False")
        elif argument_of(code, "shuffle", "seed") is None:
            after = with_argument(code, "shuffle", "seed", "1")
        message = "each worker takes its shard of an order of its own: the shards overlap and miss files"
        fix = "list the files with shuffle=False, or with one seed for all workers, or shard before the shuffle"
        evidence: dict[str, Scalar] = {"shard": shard.name, "num_shards": number_of(shard, "num_shards")}
        yield finding(shuffle, message, fix, evidence, is_warning=True, after=after)


def late_shard(case: Case) -> Iterator[Finding]:
    """The `shard` comes after the readers, so every worker reads everything and drops most of it.

    `shard(n, i)` keeps one element in n. After the readers, every worker reads and unpacks all files, and maybe decodes
    all samples, to keep an n-th. So n workers deliver hardly more than one, and the storage delivers n times the data.

    Fix: shard the list of file names: `list_files(pattern, shuffle=False).shard(n, i)` before `interleave` or
    `TFRecordDataset`. A worker then gets the samples of its files, which divides the data in another way than now. The
    number of files limits the number of workers; a `shard` of records has no such limit.

    For your information if a late shard is the only way: fewer files than workers (write more, smaller files), and data
    from Python code.

    Silent if only file names pass the shard, and if one worker streams. Silent if the shard has a wrong number of
    workers, as CSI303 then tells.
    """
    workers, misnumbered = workers_of(case), {finding.op for finding in no_shard(case)}
    for shard in case.pipeline.ops:
        passed = upstream(shard, case.pipeline.ops) if shard.kind == "Shard" and shard.name not in misnumbered else ()
        if not passed or reads_names_only(shard, case.pipeline.ops) or workers == 1:
            continue
        readers, makers = reader_ops(passed), [op for op in passed if op.kind == "Generator"]
        if not readers and not makers:
            continue
        files = case.pipeline.files
        number = number_of(shard, "num_shards")
        needed = workers or number
        if needed is None:
            continue
        is_only_way = not readers or (files is not None and files.count < needed)
        doing = "reads and transforms" if any(op.kind in TRANSFORMS - BATCHING for op in passed) else "reads"
        unit = "batch" if any(op.kind in BATCHING for op in passed) else "sample"
        message = f"every worker {doing} everything and keeps one {unit} in {needed}"
        fix = "shard the list of file names, before anything reads them"
        if not readers:
            fix = "let the Python code make only this worker's part of the data"
        elif is_only_way:
            fix = f"write the data into {4 * needed} files or more, and shard the list of their names"
        elif files is not None:
            fix += f"; then the {files.count} files are the most workers that can share them"
        evidence = {"workers": needed, "num_shards": number, "share_ratio_before_shard": share_of(case, passed)}
        yield finding(shard, message, fix, evidence, is_warning=not is_only_way)


_POLICIES = {AUTO: "AUTO", FILE: "FILE", DATA: "DATA"}


def auto_shard(case: Case) -> Iterator[Finding]:
    """`tf.distribute` cannot shard the dataset by its `auto_shard_policy`, or reads all of it in every worker.

    `strategy.experimental_distribute_dataset` and `model.fit` under a strategy divide a dataset among the workers. With
    `FILE` each worker gets its own files. It stops (`Could not apply FILE based sharding`) if there are fewer files
    than workers, or none. `AUTO`, the default, does the same if there are files. With `DATA`, and with `AUTO` without
    files, a shard is put after the whole pipeline: every worker reads, decodes and batches everything, and keeps one
    batch in n.

    Fix: at least as many files as workers. Or your own `shard` of the file names by `input_context` in
    `strategy.distribute_datasets_from_function`, with the policy `OFF`.

    An error if it would stop, a warning if every worker reads all.

    Silent if the options set no policy (training may divide the data in another way), for `OFF` and `HINT`, if a
    `shard` is in the pipeline, and for a single worker.
    """
    holder, workers = _auto_sharded(case), workers_of(case) or 1
    if holder is None or workers < 2 or case.pipeline.is_sharded:
        return
    policy = number_of(holder, AUTO_SHARD) or AUTO
    files = case.pipeline.files.count if case.pipeline.files is not None and reader_ops(case.pipeline.ops) else 0
    name = _POLICIES[policy]
    evidence: dict[str, Scalar] = {"auto_shard_policy": name, "files": files, "workers": workers}
    fix = f"write the data into {FILES_PER_WORKER * workers} files or more, or shard the list of file names yourself and set OFF"
    if policy == DATA or (policy == AUTO and not files):
        message = (
            f"with {_POLICIES[policy]} each of {workers} workers reads and transforms everything and keeps one batch in {workers}"
        )
        fix = "shard something cheap (names, keys, indices) yourself, and set the policy OFF" if not files else fix
        yield finding(holder, message, fix, evidence, is_warning=True)
    elif files < workers:
        there = f"{files} files" if files else "no files"
        message = f"with {name} tf.distribute stops: there are {there} for {workers} workers"
        yield finding(holder, message, fix, evidence, severity="error")


def _auto_sharded(case: Case) -> Op | None:
    """Return the op with the options that leave sharding to `tf.distribute`. Return None without one."""
    return next((op for op in case.pipeline.ops if op.within is None and number_of(op, AUTO_SHARD) in _POLICIES), None)
