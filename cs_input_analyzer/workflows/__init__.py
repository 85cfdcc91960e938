"""The workflows of the product, each a page of stages in order: analyze, prove, tune, validate, replan, compare."""
