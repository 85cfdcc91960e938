"""Try fixes on the user's own pipeline: prove that only its speed changes, and measure the gain side by side."""
