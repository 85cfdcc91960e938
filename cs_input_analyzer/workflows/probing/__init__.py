"""The measuring side of one analysis: which launches ran, what the seconds went to, what did not fit the budget.

`probing` runs launches (`launches` says what one is for) within the time that `seconds` grants; `results` keeps what they gave and
answers for it; `failures` makes the error where no launch gave a rate.
"""
