"""What runs inside a worker process: loading, sampling, costs, trying fixes, and the journal of it."""
