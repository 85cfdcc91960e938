"""The user's pipeline as data: its ops, its files, what an element holds, and one change of it (`Edit`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Scalar = str | int | float | bool | None
ContextUse = Literal["given", "left"]
UserFiles = Literal["private copies", "read-only", "own files"]
EditKind = Literal[
    "set-parallelism",  # num_parallel_calls of a parallel map, interleave or batch
    "set-cycle-length",
    "set-buffer",  # of a prefetch
    "parallelize",  # a serial map or batch becomes a parallel one
    "interleave",  # a flat_map over files becomes a parallel, deterministic interleave (cycle length 1 unless order is moot)
    "insert-prefetch",
    "insert-cache",  # in memory
    "vectorize",  # map before batch becomes a map over the batch
    "swap",  # with the op before it, where legal
    "use-private-threads",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One tensor of an element. `shape` is None at unknown rank, a dimension is None where it varies."""

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
        name: unique in the pipeline, the tf.data method's name with a number where it repeats: `map`, `map_2`.
        kind: TensorFlow's op without `Dataset` and version: `ParallelMap`, `TFRecord`, `Shuffle`.
        source: `path:line` of the user's call; None where TensorFlow made the op itself. Of an op that an installed package built,
            the line that called the package.
        library_source: `path:line` in that package; None where the user's own code built the op.
        inputs: names of the ops it reads from.
        parameters: `num_parallel_calls`, `buffer_size`, `cycle_length`, … ; the string `AUTOTUNE` where TensorFlow chooses.
        within: name of the op whose function holds this one (`interleave`, `flat_map`); None at the top.
        function_ops: kinds of the TensorFlow ops that its user function calls, sorted.
        shared: kinds of those among them whose result several others take, or the function gives back besides; `argument` where
            that is so of what the function is given. Questions for a shape do not count.
        code: the user's statement at `source` as written, line breaks included; None where the file cannot be read, or a package
            built the op.
        ignored: codes, or prefixes of codes, of the rules that a comment in that statement switches off.
        files: those that it reads; None where it reads none, or the graph does not name them.
        constant_bytes: of the numbers that the graph itself holds for it: arrays that it was given, or that its function uses.
        dimensions: of each tensor that it gives, the op that made each dimension: `batch`, `batch*batch_2` for two in one,
            `batch/4` for a part of one, empty for one of the data, `?` if unknown, `...` if it and all that follow are unknown.
            None if the kind of the op tells it.
        is_seeded: whether its function draws random numbers that keep a state, and a seed was given for them.
        draws_alike: whether its function draws two times by one seed, each for components of its own.
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
    dimensions: tuple[tuple[str, ...] | None, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """The files that the pipeline reads, as one unsharded worker sees them. Of thousands on a store, and of a hundred thousand
    elsewhere, a sample was asked for its size, and the others count with the mean."""

    count: int
    bytes: int
    largest_bytes: int
    smallest_bytes: int
    directory: str | None = None

    @property
    def store(self) -> str | None:
        """Return the scheme of the object store that holds them (`gs`). Return None if a file system does."""
        scheme, mark, _ = (self.directory or "").partition("://")
        return scheme if mark and "/" not in scheme and scheme != "file" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesPerElement:
    """How many samples one element of a pipeline holds.

    Attributes:
        value: in a full element; None where the graph does not say.
        source: why that is so, in words.
        counted_in: component, in flattening order, whose first dimension is counted in each element; None where all hold `value`.
        rows: samples of each unit of that dimension: the batches inside a batch.
        readings: what `value` may be, where that is not clear.
    """

    value: int | None
    source: str
    counted_in: int | None = None
    rows: int = 1
    readings: tuple[int, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Return whether nothing says it. Then each element counts as one sample."""
        return self.value is None and self.counted_in is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGraph:
    """The pipeline as TensorFlow holds it.

    Attributes:
        batch_size: samples counted for each element; None where they are counted in each. 1 where nobody knows.
        samples_per_element: how many those are, and why; None in runs saved before that was asked.
        cardinality: elements per pass; None where infinite or unknown (`is_infinite` says which).
        ops: sources first, the op that the consumer reads last; nested ones before the op that holds them.
        redirected: file caches, snapshots and saves that were moved to a private folder for measuring.
        input_context: whether the input function was `given` the `tf.distribute.InputContext` that it takes, or that was `left` at
            its default; None where it takes none.
        stand_ins: modules that are not installed and were stood in for while it was built.
        user_files: whether the input function ran on private copies of the user's files, on a read-only view of them, or on the
            files themselves; None in runs saved before that was said.
        notes: sentences about the measured copy: ops that were left out of it, and what this TensorFlow cannot measure.
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
    def is_sharded(self) -> bool:
        """Return whether a `shard` op is in the graph. Sharding in Python, before the graph, is not seen here."""
        return any(op.kind == "Shard" for op in self.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of the graph, as a rule proposes it and `rewrite.apply` carries it out.

    Attributes:
        op: name of the op that is changed, removed, or after which one is inserted.
        value: the new number of parallel calls, cycle length or buffer size; None is AUTOTUNE where the kind has a number.
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
    """A fix to be tried.

    Attributes:
        name: code of its finding.
        edits: the fix as edits of the graph; empty where there are none. Then the changed source is only run.
        change: the fix as a change of the source; None where there is none.
        most_gain: the largest gain that the costs allow.
    """

    name: str
    edits: tuple[Edit, ...]
    change: SourceChange | None = None
    most_gain: float | None = None
