"""Training loops of one's own, one after the other in the ways that the arguments name."""

import os
import queue
import sys
import threading
from pathlib import Path

import tensorflow as tf


def step(*batch):
    print("one step of training", flush=True)
    Path("trained").touch()


def batches():
    return tf.data.Dataset.range(10**6).batch(16)


def main(style):
    dataset = batches()
    if style == "for":
        for batch in dataset:
            step(batch)
    elif style == "enumerate":
        for epoch in range(3):
            for number, batch in enumerate(dataset):
                step(epoch, number, batch)
    elif style == "next":
        iterator = iter(dataset)
        for _ in range(3):
            step(next(iterator))
    elif style == "one_shot":
        iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
        for _ in range(3):
            step(iterator.get_next())
    elif style == "graph":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            batch = tf.compat.v1.data.make_one_shot_iterator(batches()).get_next()
            for _ in range(3):
                step(session.run(batch))
    elif style == "distribute":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        distributed = strategy.experimental_distribute_dataset(dataset)
        for batch in distributed:
            strategy.run(step, args=(batch,))
    elif style == "function":

        @tf.function
        def train(data):
            for batch in data:
                tf.py_function(step, [batch], [])

        train(dataset)
    elif style == "thread":  # while the main thread waits for what never comes
        threading.Thread(target=lambda: [step(batch) for batch in dataset], daemon=True).start()
        queue.SimpleQueue().get()
    elif style == "fork":
        os.fork()
        for batch in dataset:
            step(batch)
    elif style == "until":
        done = 0
        while done < 10:
            for batch in dataset:
                step(batch)
                done += 1


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(name)
    Path("trained").touch()
