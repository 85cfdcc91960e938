"""Real input functions with seeded data: what `demo`, the tests and the benchmarks run on.

Importing this package imports no TensorFlow; the modules named in `SAMPLES` do.
"""

from sample_pipelines.catalogue import SAMPLES, Sample, find
from sample_pipelines.writing import write_sample

__all__ = ["SAMPLES", "Sample", "find", "write_sample"]
