"""Commands that measure this tool itself, on CPUs and without TensorFlow's log lines; see README.md."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
