"""Ends before it takes any data, in the way that the argument names."""

import sys
import time

if sys.argv[1] == "exit":
    sys.exit("give --params")
elif sys.argv[1] == "nothing":
    print("validated")
elif sys.argv[1] == "raise":
    raise KeyError("train_input")
elif sys.argv[1] == "hang":
    time.sleep(1000)
elif sys.argv[1] == "die":
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[1] == "numpy":
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.zeros((4, 1)), np.zeros(4))
elif sys.argv[1] == "daemon":
    import subprocess

    subprocess.Popen(["sleep", sys.argv[2]], start_new_session=True)
