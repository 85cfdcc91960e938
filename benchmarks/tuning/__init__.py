"""What findings and their fixes are worth: precision and recall on planted faults, the speed of tuned pipelines, the time it takes.

python -m benchmarks.tuning --parts findings,speed,times --only serial --json tuning.json
"""
