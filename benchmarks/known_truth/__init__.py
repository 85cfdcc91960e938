"""Input functions whose bottleneck is known because it was planted, and whether `analyze` names it first.

`python -m benchmarks.known_truth` runs all cases. Each reads real files; its work is calibrated by the CPU clock of the thread that
does it, and slow storage is a slow file system. Needs g++ for the calibrated op and FUSE 3 for the storage cases.
"""
