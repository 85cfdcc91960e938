"""Destroys its user's results in every way there is, before it takes data and after."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from pathlib import Path

import tensorflow as tf


def opened_before(path):
    kept = path.open("w")
    return lambda: (kept.write("gone"), kept.flush())


def through_sqlite(path):
    with sqlite3.connect(path) as base:
        base.execute("insert into results values (2)")


def by_replacing(path):
    handle, temporary = tempfile.mkstemp()
    os.write(handle, b"gone")
    os.close(handle)
    shutil.move(temporary, path)


def in_a_thread(path):
    writing = threading.Thread(target=path.write_text, args=("gone",))
    writing.start()
    writing.join()


def with_a_summary(path):
    with tf.summary.create_file_writer(str(path)).as_default():
        tf.summary.write("loss", 1.0, step=1)


WAYS = {
    "text": lambda path: path.write_text("gone"),
    "write_file": lambda path: tf.io.write_file(str(path), "gone"),
    "raw_write": lambda path: tf.raw_ops.WriteFile(filename=str(path), contents="gone"),
    "records": lambda path: tf.io.TFRecordWriter(str(path)).close(),
    "saved": lambda path: tf.raw_ops.SaveV2(prefix=str(path), tensor_names=["a"], shape_and_slices=[""], tensors=[[1.0]]),
    "printed": lambda path: tf.print("gone", output_stream=f"file://{path}"),
    "removed": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_suffix(".old")),
    "mode": lambda path: path.chmod(0),
    "base": through_sqlite,
    "replaced": by_replacing,
    "thread": in_a_thread,
    "gfile": lambda path: tf.io.gfile.remove(str(path)),
    "times": lambda path: os.utime(path, (1, 1)),
    "link": lambda path: path.with_suffix(".link").symlink_to(path),
    "folder": lambda path: shutil.rmtree(path),
    "summary": with_a_summary,
}

for way, destroy in WAYS.items():
    destroy(Path("before", way).absolute())
held = opened_before(Path("after", "held"))
subprocess.run(["rm", "-r", "before/child"], check=True)
child = os.fork()
if child == 0:
    Path("before", "forked").write_text("gone")
    os._exit(0)
os.waitpid(child, 0)

for _ in tf.data.Dataset.range(10).batch(2):
    pass

held()
for way, destroy in WAYS.items():
    destroy(Path("after", way).absolute())
print("all of it is destroyed", flush=True)
shutil.rmtree(Path.cwd(), ignore_errors=True)
