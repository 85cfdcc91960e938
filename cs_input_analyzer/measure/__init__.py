"""The impure wing: a worker process that runs the user's pipeline and counts, and the readers of what it counted."""
