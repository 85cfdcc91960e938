"""What two runs differ in, part by part, and what of it is more than noise: the arithmetic behind `compare`. Pure.

`rates` finds the launches that belong together and has the law of what differs by chance; `costs` and `circumstances` apply it to
the rest that a run holds.
"""
