"""The value of findings and their fixes: precision and recall on planted faults, the speed of tuned pipelines, and its cost.

python -m benchmarks.tuning --parts findings,speed,times --only serial --json tuning.json
"""
