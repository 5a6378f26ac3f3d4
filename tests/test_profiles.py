"""Profiles: what counts as work, what as input, and what was in neither; made-up traces give exact numbers."""

import numpy as np
import pytest
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from helpers import profiles, traces
from helpers.devices import Device
from helpers.errors import DataError, DeviceError, ParameterError

CPU, GPU = Device("CPU", 0), Device("GPU", 0)
MS = 10**9  # picoseconds


class Trace:
    """A made-up XSpace message: events are (name, start, end) in ms since the line's own start, with their stats."""

    def __init__(self, milliseconds: float = 100):
        self.space = XSpace()
        self.add("/host:CPU", "python", (traces.WHOLE, 0, milliseconds))

    def add(self, plane_name: str, line_name: str, *events: tuple, begins: int = 5) -> "Trace":
        """Add a line which begins `begins` ms after the trace; the call begins 5 ms after it."""
        plane = next((plane for plane in self.space.planes if plane.name == plane_name), None)
        plane = plane or self.space.planes.add(name=plane_name)
        line = plane.lines.add(name=line_name, timestamp_ns=begins * 10**6)
        for name, start, end, *stats in events:
            event = line.events.add(offset_ps=round(start * MS), duration_ps=round((end - start) * MS))
            event.metadata_id = self._metadata(plane.event_metadata, name)
            for key, value in dict(*stats).items():
                stat = event.stats.add(metadata_id=self._metadata(plane.stat_metadata, key))
                if isinstance(value, int):
                    stat.int64_value = value
                else:  # texts are stored once, as names
                    stat.ref_value = self._metadata(plane.stat_metadata, value)
        return self

    @staticmethod
    def _metadata(table, name: str) -> int:
        known = next((number for number, entry in table.items() if entry.name == name), len(table) + 1)
        table[known].name = name
        return known

    def read(self, device=CPU) -> profiles.Profile:
        return profiles.read(self.space, device)


def kinds(profile) -> dict:
    """Return {kind: (count, ms)}."""
    return {row.kind: (row.count, pytest.approx(row.seconds * 1e3)) for row in profile.by_kind()}


def ms(intervals) -> list:
    return [tuple(pytest.approx(1e3 * moment, abs=1e-9) for moment in pair) for pair in intervals]


def test_operations_on_two_threads_are_merged_and_the_rest_is_gaps():
    """Seconds add up over threads, the busy time does not; gaps come longest first, those at both ends too."""
    trace = Trace().add("/host:CPU", "tf_Compute/1", ("a/dense/MatMul:MatMul", 12, 30), ("b/adam/Mul:Mul", 30, 40))
    trace.add("/host:CPU", "tf_Compute/2", ("c/dense_1/MatMul:MatMul", 15, 45), ("d/Relu:_FusedConv2D", 55, 60))

    profile = trace.read()

    assert profile.seconds == pytest.approx(0.1)
    assert ms(profile.busy) == [(12, 45), (55, 60)]
    assert profile.busy_share == pytest.approx(0.38)
    assert ms(profile.gaps) == [(60, 40), (0, 12), (45, 10)]
    assert kinds(profile) == {"MatMul": (2, 48), "Mul": (1, 10), "FusedConv2D": (1, 5)}
    assert [row.share for row in profile.by_kind()] == pytest.approx([48 / 63, 10 / 63, 5 / 63])
    assert profile.in_words == "Operations ran for 38 % of the time. No batch of input was asked for."


def test_lines_that_begin_later_and_events_that_pass_the_end_are_on_the_clock_of_the_call():
    """Each line has a start of its own; what lies outside of the call is cut off."""
    trace = Trace().add("/host:CPU", "tf_Compute/1", ("a:MatMul", 0, 10), ("b:MatMul", 60, 90), begins=25)

    assert ms(trace.read().busy) == [(20, 30), (80, 100)]


def test_what_is_nested_is_counted_once():
    """An operation within another takes its time away from it; executors and threads are no operations."""
    trace = Trace().add(
        "/host:CPU",
        "tf_Compute/1",
        ("ExecutorState::Process", 0, 90, {"id": 7}),
        ("outer:MapDefun", 10, 50),
        ("inner:MatMul", 20, 30),
        ("ParallelFor", 21, 29),
        ("inner:MatMul", 30, 35),
        ("f/StatefulPartitionedCall:StatefulPartitionedCall", 50, 80),
        ("tf.constant", 80, 85),
    )

    profile = trace.read()

    assert kinds(profile) == {"MapDefun": (1, 25), "MatMul": (2, 15)}
    assert profile.busy_share == pytest.approx(0.4)


def test_an_operation_called_from_python_runs_from_where_its_kernel_runs():
    """The way from Python to it is a gap; a function that is called has operations of its own."""

    def called(name, start):
        around = [("EagerExecute", start, start + 9), (f"EagerLocalExecute: {name}", start + 1, start + 9)]
        return [
            *around,
            ("EagerKernelExecute", start + 5, start + 8),
            ("KernelAndDeviceFunc::Run", start + 6, start + 8),
        ]

    names = ("MatMul", "_EagerConst", "__inference_step_12", "SyncDevice")
    trace = Trace().add(
        "/host:CPU", "python", *(e for place, name in enumerate(names) for e in called(name, place * 20))
    )

    profile = trace.read()

    assert kinds(profile) == {"MatMul": (1, 2), "EagerConst": (1, 2)}
    assert ms(profile.busy) == [(6, 8), (26, 28)]


def test_an_xla_program_on_a_cpu_is_one_operation():
    """Its parts are left out: their events end before their work does."""
    hlo = {"hlo_op": "convolution.12", "hlo_module": "m"}
    trace = Trace().add(
        "/host:CPU",
        "python",
        ("__inference_f_1:__inference_f_1", 9, 61),
        ("CpuExecutable::ExecuteAsyncOnStream", 10, 60),
        ("convolution.12", 20, 21, hlo),
    )

    assert kinds(trace.read()) == {"XLA program": (1, 50)}


def test_a_real_xla_program_is_found(tf):
    """Its event has the name that the made-up one has."""
    fused = tf.function(lambda x: tf.tanh(x @ x) + 1, jit_compile=True)
    x = tf.ones((20, 20))

    profile = profiles.take(lambda: fused(x), "CPU:0")

    assert kinds(profile)["XLA program"][0] == 1 and "MatMul" not in kinds(profile)


def test_operations_of_a_map_are_input_and_waiting_is_what_no_operation_hides():
    """A captured function's runs are known by their number, a thread of tf.data by its name."""
    trace = Trace()
    trace.add("/host:CPU", "tf_data_iterator_get_next/3", ("IteratorGetNextOp::DoCompute", 0, 30, {"id": 1}))
    trace.add(
        "/host:CPU",
        "tf_data_iterator_resource/4",
        ("Iterator::Root::Prefetch::Map", 0, 28, {"id": 99}),
        ("InstantiatedCapturedFunction::Run", 1, 27, {"id": 5}),
    )
    trace.add(
        "/host:CPU",
        "tf_Compute/1",
        ("ExecutorState::Process", 2, 26, {"id": 5}),
        ("sort/TopKV2:TopKV2", 2, 25),
        ("ExecutorState::Process", 30, 60, {"id": 1}),
        ("dense/MatMul:MatMul", 30, 60),
    )
    trace.add("/host:CPU", "tf_data_private_threadpool/8", ("sort/Neg:Neg", 40, 45))
    trace.add("/host:CPU", "tf_data_iterator_get_next/3", ("IteratorGetNextOp::DoCompute", 50, 70))
    trace.add("/host:CPU", "python", ("EagerLocalExecute: MakeIterator", 80, 90), ("KernelAndDeviceFunc::Run", 81, 90))

    profile = trace.read()

    assert kinds(profile) == {"MatMul": (1, 30)}
    assert ms(profile.requests) == [(0, 30), (50, 70)]
    assert ms(profile.waiting) == [(0, 30), (60, 70)]
    assert profile.waiting_for_input == pytest.approx(0.04)
    assert ms(profile.input_work) == [(0, 30), (40, 45), (50, 70), (81, 90)]
    assert profile.in_words == "Operations ran for 30 % of the time. Waiting for input took 40 %."


def on_a_gpu() -> Trace:
    trace = Trace().add(
        "/host:CPU", "tf_Compute/1", ("dense/MatMul:MatMul", 0, 90), ("IteratorGetNextOp::DoCompute", 91, 95)
    )
    trace.add(
        "/device:GPU:0",
        "Stream #14(Kernel,Memset,MemoryAlloc)",
        ("void gemm<float>(int)", 20, 30, {"tf_op": "model/dense/MatMul:MatMul", "kernel_details": "regs:32"}),
        ("sm90_kernel", 40, 60, {"tf_op": "f/XlaLaunch:XlaLaunch", "hlo_op": "fusion.12"}),
        ("Memset", 60, 61, {"tf_op": "f/Zeros:Fill"}),
        ("MemoryAlloc", 70, 90),
        ("a_kernel_of_a_library", 61, 62),
    )
    trace.add("/device:GPU:0", "Stream #15(MemcpyH2D,MemcpyD2H)", ("MemcpyH2D", 0, 25), ("MemcpyD2H", 62, 63))
    trace.add("/device:GPU:0", "XLA Ops", ("fusion.12", 0, 100))
    trace.add("/device:GPU:1", "Stream #14(Kernel)", ("other", 0, 99))
    return trace


def test_on_a_gpu_its_own_streams_count_and_nothing_else():
    """Kernels bear the operation that launched them, or XLA's name; copies from the host are input."""
    profile = on_a_gpu().read(GPU)

    named = {
        "MatMul": (1, 10),
        "fusion": (1, 20),
        "Memset": (1, 1),
        "a_kernel_of_a_library": (1, 1),
        "MemcpyD2H": (1, 1),
    }
    assert kinds(profile) == named
    assert ms(profile.busy) == [(20, 30), (40, 63)]
    assert ms(profile.waiting) == [(0, 20), (91, 95)]
    assert ms(profile.input_work) == [(0, 25), (91, 95)]
    assert ms(on_a_gpu().read(Device("GPU", 1)).busy) == [(0, 99)]
    assert ms(on_a_gpu().read(CPU).busy) == [(0, 90)]


def test_a_gpu_on_which_nothing_ran_is_an_error_with_tensorflows_words():
    """A driver that forbids counting leaves no plane; the host's operations must not pass for the GPU's."""
    trace = Trace().add("/host:CPU", "tf_Compute/1", ("dense/MatMul:MatMul", 0, 90))
    trace.space.errors.append("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    with pytest.raises(DeviceError, match=r"Nothing ran on GPU:0.*CUPTI_ERROR_INSUFFICIENT_PRIVILEGES.*course check"):
        trace.read(GPU)


def test_an_empty_trace_is_an_error():
    """A file without our own event says nothing about the call."""
    with pytest.raises(DataError, match="no trace that can be read"):
        profiles.read(XSpace(), CPU)


def test_steps_that_tf_data_runs_itself_are_refused():
    """Such a loop makes the steps a stage of the pipeline: they would all look like input."""
    trace = Trace().add("/host:CPU", "tf_data_reduce_dataset/1", ("ReduceIterator::Root", 0, 50))

    with pytest.raises(ParameterError, match="Loop in Python"):
        trace.read()


def test_a_call_without_an_operation_is_an_error(tf):
    """NumPy is not seen; the waiting for the device is no operation of the call."""
    with pytest.raises(ParameterError, match="ran no TensorFlow operation.*Put the work into the call"):
        profiles.take(lambda: np.ones(3) + 1, "CPU:0")


def test_a_profile_within_a_profile_is_an_error_and_leaves_none_running(tf, tmp_path):
    """Whoever started first; afterwards the next profile works."""

    def work():
        return tf.ones(3) + 1

    def profiled_twice():
        with tf.profiler.experimental.Profile(str(tmp_path)):
            return work()

    with pytest.raises(ParameterError, match="Another profiler.*profiler.experimental.stop"):
        profiles.take(profiled_twice, "CPU:0")
    with tf.profiler.experimental.Profile(str(tmp_path)), pytest.raises(ParameterError, match="Another profiler"):
        profiles.take(work, "CPU:0")
    assert "AddV2" in kinds(profiles.take(work, "CPU:0"))


def test_an_error_of_the_call_itself_is_passed_on(tf):
    """Not every error of that class is about profilers; the profiler is stopped all the same."""

    calls = []

    def twice():
        if calls:
            raise tf.errors.AlreadyExistsError(None, None, "the table exists")
        calls.append(1)

    with pytest.raises(tf.errors.AlreadyExistsError, match="the table exists"):
        profiles.take(twice, "CPU:0")
    assert profiles.take(lambda: tf.ones(3) * 2, "CPU:0").operations


def test_the_call_runs_once_to_warm_up_and_once_in_the_profile(tf):
    """What only the first call does, such as tracing a function, is not in the profile."""
    traced, called = [], []

    @tf.function(jit_compile=False)
    def step(x):
        traced.append(1)
        return tf.matmul(x, x)

    x = tf.ones((50, 50))

    def work():
        called.append(len(traced))
        return step(x)

    profile = profiles.take(work, "CPU:0")

    assert called == [0, 1]
    assert kinds(profile)["MatMul"][0] == 1


def test_a_result_from_another_device_is_an_error(tf):
    """No profile bears the name of a device on which the work did not run."""

    def elsewhere():
        with tf.device("CPU:1"):
            return tf.ones(3) + 1

    with pytest.raises(DeviceError, match="CPU:1"):
        profiles.take(elsewhere, "CPU:0")


def sorting(tf, prepared: bool):
    """Return training steps on batches that are sorted, over and over: each when it is needed, or all beforehand."""
    x, weights = tf.random.stateless_uniform((1600, 200), (0, 0)), tf.Variable(tf.ones((200, 50)))

    def sort(rows):
        for _ in range(20):
            rows = tf.reverse(tf.sort(rows), [1])
        return rows

    options = tf.data.Options()  # TensorFlow would make an unprepared pipeline parallel, and prefetch from it
    options.autotune.enabled = False
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.inject_prefetch = False
    batches = tf.data.Dataset.from_tensor_slices(x).batch(200).map(sort)
    batches = batches.cache().prefetch(2) if prepared else batches.with_options(options)

    @tf.function(jit_compile=False)
    def step(rows):
        for _ in range(5):
            weights.assign_sub(1e-3 * tf.matmul(rows, tf.matmul(rows, weights), transpose_a=True))

    def epoch():
        for rows in batches:
            step(rows)
        return weights.value()

    return epoch


@pytest.mark.alone
def test_a_starved_training_waits_for_input_and_a_fed_one_does_not(tf):
    """The sorting of a map stage is waited for, and is no operation of the training."""
    starved, fed = (profiles.take(sorting(tf, prepared), "CPU:0") for prepared in (False, True))

    shares = [profile.waiting_for_input / profile.seconds for profile in (starved, fed)]
    assert shares[0] > 0.3 and shares[0] > 2 * shares[1]
    assert len(starved.requests) == len(fed.requests) == 9  # 8 batches, and the end
    for profile in (starved, fed):
        assert kinds(profile)["MatMul"][0] == 80
        assert not {"TopKV2", "ReverseV2", "IteratorGetNext"} & set(kinds(profile))


@pytest.mark.alone
def test_many_tiny_operations_leave_more_gaps_than_a_few_large_ones(tf):
    """Between two calls from Python, nothing runs."""
    small, large = tf.ones((2, 2)), tf.ones((1000, 1000))

    tiny = profiles.take(lambda: [tf.matmul(small, small) for _ in range(200)], "CPU:0")
    few = profiles.take(lambda: [tf.matmul(large, large) for _ in range(3)], "CPU:0")

    assert kinds(tiny)["MatMul"][0] == 200 and len(tiny.gaps) >= 200
    assert tiny.busy_share < few.busy_share


def test_keras_steps_are_work_and_what_keras_does_with_the_data_is_input(tf):
    """fit gathers NumPy rows in tf.data; the same operations would else be counted as the network's."""
    import keras

    x, y = np.zeros((96, 8), "float32"), np.zeros((96, 1), "float32")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)

    profile = profiles.take(lambda: model.fit(x, y, batch_size=32, verbose=0) and None, "CPU:0")

    found = kinds(profile)
    products = found["MatMul"][0] + found.get("FusedMatMul", (0,))[0]
    assert products == 3 * 5  # per step: two forward, three back
    assert "GatherV2" not in found and "RandomShuffle" not in found
    assert len(profile.requests) == 3
