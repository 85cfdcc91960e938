"""List the TensorFlow ops that functions of a pipeline call, by trait. `op_kinds` lists dataset ops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from cs_input_analyzer.records import Op

# Trait -> the ops that have it. `Name*` stands for all ops whose names begin so.
TABLE: Mapping[str, str] = {
    # Runs a Python function, of which the graph says nothing.
    "python": "PyFunc PyFuncStateless EagerPyFunc",
    # Reads a whole file.
    "reads": "ReadFile",
    # Makes pixels or sound of an encoded record: it takes time, and many times the memory.
    "decodes": ("DecodeJpeg DecodeAndCropJpeg DecodePng DecodeBmp DecodeGif DecodeImage DecodeWebP DecodeWav DecodeCompressed"),
    # Takes long as a rule, as a decoder and Python do.
    "costly": (
        "Resize* CropAndResize* ImageProjectiveTransform* AdjustContrast* AdjustHue* AdjustSaturation* RGBToHSV* MatMul* "
        "BatchMatMul* Conv* Einsum* FFT* RFFT* IRFFT* Mfcc* AudioSpectrogram* RegexReplace* ReadFile* StringSplit* "
        "UnicodeTranscode* Sort* TopK* Unique* While* StatelessWhile*"
    ),
    # Draws random numbers out of a state, so that each pass draws others.
    "draws": (
        "Random* Multinomial* TruncatedNormal* ParameterizedTruncatedNormal* SampleDistortedBoundingBox* RngReadAndSkip* RngSkip* "
        "StatefulUniform* StatefulStandardNormal* StatefulTruncatedNormal* StatefulRandom*"
    ),
    # Keeps a state, or reads one.
    "state": "Lookup* ReadVariable* Assign* Resource* VarHandle* Print* TensorArray* Queue* Barrier*",
    # TensorFlow's registry gives it a state for its functions, but its results do not depend on the order of calls.
    "harmless": (
        "Assert LookupTableFindV2 LookupTableSizeV2 DummyMemoryCache DummySeedGenerator HashTableV2 PartitionedCall "
        "StatefulPartitionedCall If Case While NoOp CheckNumerics CheckNumericsV2 StatelessRandomGetAlg GuaranteeConst DeepCopy "
        "Empty IsTensorFloat32Enabled DeviceIndex"
    ),
    # Computes of a batch, number by number, the same as of one sample.
    "each": (
        "Abs AsString Cast Ceil Cos Exp Expm1 Floor Identity Invert IsFinite IsInf IsNan Log Log1p LogicalNot Neg "
        "OnesLike Reciprocal Relu Rint Round Rsqrt Sigmoid Sign Sin Sqrt Square StaticRegexFullMatch StaticRegexReplace "
        "StringLength StringLower StringStrip StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Tan Tanh "
        "ZerosLike"
    ),
    # The same of two tensors of one rank (a batch dimension before both keeps them aligned), or of a tensor and a single number.
    "each of several": (
        "Add AddV2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less "
        "LessEqual LogicalAnd LogicalOr Maximum Minimum Mul MulNoNan NotEqual Pow RealDiv SelectV2 SquaredDifference Sub "
        "TruncateDiv TruncateMod"
    ),
    # The same of one sample's string or table key.
    "each text": "DecodeCSV DecodeRaw LookupTableFindV2",
    # Takes a batch once its shapes, dimensions and indices count one dimension more.
    "one more dimension": "ConcatV2 EnsureShape ExpandDims OneHot Pack ParseExampleV2 Reshape SerializeSparse StridedSlice",
    # Calls a function, and gives what that gives.
    "calls": "PartitionedCall StatefulPartitionedCall",
    # Its results have the shapes that they had when the function was traced.
    "opaque": (
        "While StatelessWhile If StatelessIf Case StatelessCase TensorListStack TensorListConcatV2 PyFunc PyFuncStateless "
        "EagerPyFunc RemoteCall SymbolicGradient"
    ),
    # Only asks for the shape of a tensor.
    "asks shape": "Shape ShapeN Rank Size",
    # Gives a tensor of the same size, number by number.
    "same size": "Cast Mul Sub AddV2 RealDiv Div EnsureShape Maximum Minimum Identity",
}
# Random ops whose draws follow from attributes `seed` and `seed2`, both 0 without a chosen seed -> the same draw without state.
STATELESS_TWINS: Mapping[str, str] = {
    "RandomUniform": "StatelessRandomUniform",
    "RandomUniformInt": "StatelessRandomUniformInt",
    "RandomStandardNormal": "StatelessRandomNormal",
    "TruncatedNormal": "StatelessTruncatedNormal",
    "Multinomial": "StatelessMultinomial",
    "SampleDistortedBoundingBoxV2": "StatelessSampleDistortedBoundingBox",
    "RandomShuffle": "Identity",
}
# It takes one serialized example, or a vector of them.
PARSER = "ParseExampleV2"
# But for reads of a seed, without which no draw by seed works, and what only calls functions.
_DRAWS_BY_SEED = re.compile(r"Stateless(?!RandomGet|While|If|Case)")


@cache
def names_of(trait: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names, and beginnings of names, of the ops with a trait. Raise KeyError for a trait that is not in the table."""
    names = TABLE[trait].split()
    return frozenset(name for name in names if name[-1] != "*"), tuple(name[:-1] for name in names if name[-1] == "*")


def does(op: str, *traits: str) -> bool:
    """Return whether a TensorFlow op has one of these traits."""
    return any(op in exact or op.startswith(begins) for exact, begins in map(names_of, traits))


def calls(op: Op, *traits: str) -> bool:
    """Return whether the function of a dataset op calls a TensorFlow op with one of these traits."""
    return any(does(name, *traits) for name in op.function_ops)


def draws_by_seed(op: Op) -> bool:
    """Return whether its function draws numbers by a seed: they differ between passes only if the seed does."""
    return any(map(_DRAWS_BY_SEED.match, op.function_ops))
