"""The value of findings and their fixes: precision and recall on planted faults, and the speed of tuned pipelines.

python -m benchmarks.tuning --parts findings,speed --only serial --json tuning.json
"""
