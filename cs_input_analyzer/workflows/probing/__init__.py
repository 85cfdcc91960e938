"""The measuring side of one analysis: the launches that ran, the time they took, and those that did not fit the budget.

`probing` runs launches (`launches` names their purpose) within the time that `seconds` grants. `results` keeps their
results and answers questions about them. `failures` makes the error if no launch gave a rate.
"""
