"""The user's pipeline as data: its ops, its files, the content of an element, and one change of it (`Edit`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scalar = str | int | float | bool | None
ContextUse = Literal["given", "left"]
UserFiles = Literal["private copies", "read-only", "own files"]
EditKind = Literal[
    "set-parallelism",  # num_parallel_calls of a parallel map, interleave or batch
    "set-cycle-length",
    "set-buffer",  # of a prefetch
    "parallelize",  # a serial map or interleave becomes a parallel one
    "interleave",  # a flat_map over files becomes a parallel, deterministic interleave (cycle length 1 unless order is irrelevant)
    "insert-prefetch",
    "insert-cache",  # in memory
    "vectorize",  # map before batch becomes a map over the batch
    "swap",  # with the op before it, if legal
    "use-private-threads",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One tensor of an element. `shape` is None if the rank is unknown, a dimension is None if it varies."""

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    kind: str = "tensor"

    def __str__(self) -> str:
        """Return `image float32[?, 224, 224, 3]` or `ids int64[?] (ragged)`."""
        sizes = "rank unknown" if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype}[{sizes}]{'' if self.kind == 'tensor' else f' ({self.kind})'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One dataset op of the pipeline.

    Attributes:
        name: unique in the pipeline, the tf.data method's name with a number if it repeats: `map`, `map_2`.
        kind: TensorFlow's op without `Dataset` and version: `ParallelMap`, `TFRecord`, `Shuffle`.
        source: `path:line` of the user's call; None if TensorFlow made the op itself. For an op that an installed package built,
            the line that called the package.
        library_source: `path:line` in that package, or in the function of TensorFlow that calls the method of the op, such as
            `rejection_resample`; None if the user's own code built the op.
        inputs: names of the ops it reads from.
        parameters: `num_parallel_calls`, `buffer_size`, `cycle_length`, … ; the string `AUTOTUNE` if TensorFlow chooses.
        within: name of the op whose function holds this one (`interleave`, `flat_map`); None at the top.
        function_ops: kinds of the TensorFlow ops that its user function calls, sorted.
        shared: kinds of those ops whose result several ops take, or the function also returns. It holds `argument` if that is
            true of an argument of the function. Reading a shape does not count.
        code: the user's statement at `source` as written, line breaks included; None if the file cannot be read, or a package
            built the op.
        ignored: codes, or prefixes of codes, of the rules that a comment in that statement switches off.
        files: the files that it reads; None if it reads none, or the graph does not name them.
        constant_bytes: size of the numbers that the graph itself holds for the op: array arguments, and arrays of its function.
        dimensions: for each tensor of the output, the op that made each dimension: `batch`, `batch*batch_2` for two in one,
            `batch/4` for a part of one, empty for a dimension of the data, `?` if unknown, `...` if this and all that follow are
            unknown. None if the kind of the op tells it.
        is_seeded: whether its function draws seeded random numbers that keep a state.
        draws_alike: whether its function draws twice with one seed, for different components.
        by_cpus: parameters whose number the user's code, or TensorFlow, takes from the CPUs: `num_parallel_calls=os.cpu_count()`.
            Each has its number on a node of 1,024 CPUs.
    """

    name: str
    kind: str
    source: str | None = None
    library_source: str | None = None
    inputs: tuple[str, ...] = ()
    parameters: Mapping[str, Scalar | tuple[Scalar, ...]]
    within: str | None = None
    function_ops: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    code: str | None = None
    ignored: tuple[str, ...] = ()
    files: FileSet | None = None
    constant_bytes: int = 0
    is_seeded: bool = False
    draws_alike: bool = False
    by_cpus: Mapping[str, int] = field(default_factory=dict)
    dimensions: tuple[tuple[str, ...] | None, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """The files that the pipeline reads, as one unsharded worker sees them.

    The size is estimated from a sample for thousands of files on a store, or a hundred thousand elsewhere.
    """

    count: int
    bytes: int
    largest_bytes: int
    smallest_bytes: int
    directory: str | None = None

    @property
    def store(self) -> str | None:
        """Return the scheme of the object store that holds the files (`gs`). Return None if a file system does."""
        scheme, mark, _ = (self.directory or "").partition("://")
        return scheme if mark and "/" not in scheme and scheme != "file" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesPerElement:
    """The number of samples in one element of a pipeline.

    Attributes:
        value: samples of a full element; None if the graph does not say.
        source: the reason for that value, in words.
        counted_in: component, in flattening order, whose first dimension is counted in each element; None if all hold `value`.
        rows: samples of each unit of that dimension: the batches inside a batch.
        readings: the possible values, if the graph is ambiguous.
    """

    value: int | None
    source: str
    counted_in: int | None = None
    rows: int = 1
    readings: tuple[int, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Return whether the number of samples is unknown. Then each element counts as one sample."""
        return self.value is None and self.counted_in is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGraph:
    """The pipeline as TensorFlow holds it.

    Attributes:
        batch_size: samples counted for each element; None if they are counted in each element. 1 if unknown.
        samples_per_element: the number of samples and its reason; None in runs saved by older versions.
        cardinality: elements per pass; None if infinite or unknown (`is_infinite` says which).
        ops: sources first, the op that the consumer reads last; nested ops before the op that holds them.
        redirected: file caches, snapshots and saves that were moved to a private folder for measuring.
        input_context: whether the `tf.distribute.InputContext` parameter was `given` or `left` at its default; None if the input
            function has none.
        stand_ins: missing modules that were replaced by stand-ins while the pipeline was built.
        user_files: whether the input function ran on private copies of the user's files, on a read-only view, or on the files
            themselves; None in runs saved by older versions.
        notes: sentences about the measured copy: ops that were left out, and costs that this TensorFlow cannot measure.
    """

    target: str
    batch_size: int | None
    element_spec: tuple[Component, ...]
    ops: tuple[Op, ...]
    files: FileSet | None
    cardinality: int | None = None
    is_infinite: bool = False
    redirected: tuple[str, ...] = ()
    input_context: ContextUse | None = None
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    user_files: UserFiles | None = None
    samples_per_element: SamplesPerElement | None = None

    @property
    def full_batch(self) -> int | None:
        """Return the samples of a full element, where some may hold fewer; None if their number varies."""
        counted = self.samples_per_element
        return self.batch_size if self.batch_size is not None or counted is None else counted.value

    @property
    def is_sharded(self) -> bool:
        """Return whether a `shard` op is in the graph. Sharding in Python, before the graph, is not seen here."""
        return any(op.kind == "Shard" for op in self.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of the graph, proposed by a rule and carried out by `tfdata.edits.apply`.

    Attributes:
        op: name of the op that is changed, or after which one is inserted.
        value: the new number of parallel calls, cycle length or buffer size; None is AUTOTUNE if the kind has a number.
    """

    kind: EditKind
    op: str
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """One change of the user's source: at `source` (`path:line`) the statement `before` becomes `after`."""

    source: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A fix to try.

    Attributes:
        name: code of its finding.
        edits: the fix as edits of the graph; empty if there are none. Then the changed source is only run.
        change: the fix as a change of the source; None if there is none.
    """

    name: str
    edits: tuple[Edit, ...]
    change: SourceChange | None = None
