"""As the vendor's examples are: modules that are not installed, a run configuration, an input function in a lambda."""

import os
import sys
from pathlib import Path

import tensorflow as tf
from cerebras.tf.cs_estimator import CerebrasEstimator
from cerebras.tf.cs_slurm_cluster_resolver import CSSlurmClusterResolver
from cerebras.tf.run_config import CSRunConfig
from cerebras.tf.tools.analyze_input_fn import CS_AUTOTUNE


class Estimator(CerebrasEstimator):
    """A wrapper, as scripts have them around what they use on other accelerators."""

    def __init__(self, model_fn, **others):
        super().__init__(model_fn=model_fn, **others)
        self.steps = 10


def input_fn(params):
    dataset = tf.data.Dataset.range(10**6)
    dataset = dataset.map(lambda number: number + 1, num_parallel_calls=CS_AUTOTUNE)
    return dataset.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    Path("trained").touch()


resolver = CSSlurmClusterResolver(port_base=23111)
config = CSRunConfig(cs_ip="0.0.0.0:9000", save_checkpoints_steps=10, cluster_resolver=resolver)
estimator = Estimator(model_fn, config=config, params={"batch_size": 32}, model_dir=os.path.join("model_dir", "1"))
if "--mode=validate_only" in sys.argv:
    estimator.compile(lambda: input_fn(estimator.params), validate_only=True)
else:
    estimator.train(input_fn=input_fn, steps=estimator.steps)
    Path("trained").touch()
