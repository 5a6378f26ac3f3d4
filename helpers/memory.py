"""Measure how much memory a piece of work takes. In bytes."""

import threading
import time
from collections.abc import Callable

import psutil

from helpers import devices

EVERY = 0.001  # seconds between two looks at the memory of this process


def peak_bytes(call: Callable, device) -> int:
    """Return how many bytes more than before were in use at most while `call` ran on `device`.

    A GPU keeps count itself. For a CPU the memory of the whole process is looked at every millisecond: it is
    too low when memory that was set free earlier is used again, and it misses what comes and goes faster.
    """
    device = devices.find(device)
    tf = devices.load_tensorflow()
    with tf.device(str(device)):
        tf.test.experimental.sync_devices()
        if device.kind == "GPU":
            return _gpu_peak(tf, call, str(device))
        return _host_peak(call)


def _gpu_peak(tf, call: Callable, name: str) -> int:
    tf.config.experimental.reset_memory_stats(name)
    before = tf.config.experimental.get_memory_info(name)["current"]
    call()
    tf.test.experimental.sync_devices()
    return tf.config.experimental.get_memory_info(name)["peak"] - before


def _host_peak(call: Callable) -> int:
    process = psutil.Process()
    seen, done = [process.memory_info().rss], threading.Event()

    def look():
        while not done.is_set():
            seen.append(process.memory_info().rss)
            time.sleep(EVERY)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        call()
    finally:
        done.set()
        watcher.join()
    return max(seen) - seen[0]
