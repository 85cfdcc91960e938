"""The differences between two runs, part by part, and which of them exceed noise: the arithmetic behind `compare`. Pure.

`rates` finds the launches that belong together and has the law of chance differences; `costs` and `circumstances` apply
it to the other parts of a run.
"""
