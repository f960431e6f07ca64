"""tritonclient (C++ gRPC underneath) against a running server: `python clients-triton.py HOST:PORT`.

Runs every function named case_*, prints {name: "passed" or what went wrong} as JSON. Used by clients-triton.test.ts.
"""

import json
import queue
import sys
import traceback

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

WIDTH = 3
WIDE_ROW_BYTES = 4 * 2**20


def tensor(name, array, datatype=None):
    made = triton.InferInput(name, array.shape, datatype or np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


def refused(call):
    try:
        call()
    except InferenceServerException as error:
        return error.status(), error.message()
    raise AssertionError("expected a refusal")


def case_health(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("simple") and not client.is_model_ready("broken")
    assert not client.is_model_ready("nobody")


def case_metadata(client):
    assert client.get_server_metadata().name == "xlaserver"
    metadata = client.get_model_metadata("simple", as_json=True)
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["INPUT0", "INPUT1"]
    assert metadata["outputs"][0]["shape"] == ["-1", "16"]
    config = client.get_model_config("simple").config
    assert config.max_batch_size == 8 and list(config.input[0].dims) == [16]
    status, message = refused(lambda: client.get_model_metadata("nobody"))
    assert status == "StatusCode.NOT_FOUND" and "nobody" in message


def case_repository(client):
    states = {model.name: model.state for model in client.get_model_repository_index().models}
    assert states["simple"] == "READY" and states["broken"] == "UNAVAILABLE"


def case_statistics(client):
    def count():
        return client.get_inference_statistics("identity_f32").model_stats[0].inference_stats.success.count

    before = count()
    client.infer("identity_f32", [tensor("x", np.ones((1, WIDTH), np.float32))])
    assert count() == before + 1


def case_simple(client):
    first = np.arange(32, dtype=np.int32).reshape(2, 16)
    second = np.ones((2, 16), np.int32)
    outputs = [triton.InferRequestedOutput(name) for name in ("OUTPUT1", "OUTPUT0")]
    reply = client.infer(
        "simple", [tensor("INPUT0", first), tensor("INPUT1", second)], outputs=outputs, request_id="simple-1"
    )
    assert reply.get_response().id == "simple-1"
    assert [output.name for output in reply.get_response().outputs] == ["OUTPUT1", "OUTPUT0"]
    np.testing.assert_array_equal(reply.as_numpy("OUTPUT0"), first + second)
    np.testing.assert_array_equal(reply.as_numpy("OUTPUT1"), first - second)


def case_every_dtype(client):
    names = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64".split()
    types = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
    rng = np.random.default_rng(1)
    for name, dtype in zip(names, types):
        array = rng.integers(0, 2 if name == "bool" else 100, (5, WIDTH)).astype(dtype)
        reply = client.infer(f"identity_{name}", [tensor("x", array)])
        assert reply.as_numpy("y").dtype == array.dtype
        np.testing.assert_array_equal(reply.as_numpy("y"), array)
    # tritonclient sends BF16 from float32 and cuts the lower half off.
    array = np.array([[1.5, -2.0, 0.25]], np.float32)
    np.testing.assert_array_equal(client.infer("identity_bf16", [tensor("x", array, "BF16")]).as_numpy("y"), array)


def case_strings(client):
    words = np.array(["abc".encode(), b"", "größe".encode()], dtype=object)
    reply = client.infer("strings", [tensor("text", words)])
    assert list(reply.as_numpy("reversed")) == [word[::-1] for word in words]
    assert list(reply.as_numpy("doubled")) == [2 * len(word) for word in words]


def case_parameters_that_are_ignored(client):
    array = np.ones((1, WIDTH), np.float32)
    reply = client.infer(
        "identity_f32", [tensor("x", array)], model_version="3", sequence_id=5, sequence_start=True, priority=1
    )
    np.testing.assert_array_equal(reply.as_numpy("y"), array)


def case_deadlines(client):
    text = tensor("text", np.array([b"a"], dtype=object))
    status, _ = refused(lambda: client.infer("strings", [text], timeout=50_000, parameters={"wait": 1}))
    assert status == "StatusCode.DEADLINE_EXCEEDED", status
    status, _ = refused(lambda: client.infer("strings", [text], client_timeout=0.05, parameters={"wait": 1}))
    assert status == "StatusCode.DEADLINE_EXCEEDED", status


def case_many_at_once(client):
    results = queue.Queue()
    for index in range(200):
        array = np.full((1 + index % 7, WIDTH), index, np.float32)
        client.async_infer(
            "identity_f32", [tensor("x", array)], callback=lambda result, error: results.put((result, error)),
            request_id=str(index),
        )
    for _ in range(200):
        reply, error = results.get(timeout=30)
        assert error is None, error
        index = int(reply.get_response().id)
        np.testing.assert_array_equal(reply.as_numpy("y"), np.full((1 + index % 7, WIDTH), index, np.float32))


def case_compression(client):
    rows = np.tile(np.arange(WIDTH, dtype=np.float32), (4, 1))
    for algorithm in ("gzip", "deflate"):
        reply = client.infer("identity_f32", [tensor("x", rows)], compression_algorithm=algorithm)
        np.testing.assert_array_equal(reply.as_numpy(reply.get_response().outputs[0].name), rows)


def case_mistakes(client):
    array = np.ones((1, WIDTH), np.float32)
    region = triton.InferInput("x", [1, WIDTH], "FP32")
    region.set_shared_memory("region", 12)
    mistakes = [
        ("NOT_FOUND", "nobody", [tensor("x", array)]),
        ("UNAVAILABLE", "broken", [tensor("x", array)]),
        ("INVALID_ARGUMENT", "identity_f32", [tensor("z", array)]),
        ("INVALID_ARGUMENT", "identity_f32", [tensor("x", array), tensor("x", array)]),
        ("INVALID_ARGUMENT", "identity_f32", [tensor("x", array.astype(np.float64))]),
        ("INVALID_ARGUMENT", "identity_f32", [tensor("x", np.ones((1, 4), np.float32))]),
        ("INVALID_ARGUMENT", "identity_f32", []),
        ("UNIMPLEMENTED", "identity_f32", [region]),
    ]
    for expected, model, inputs in mistakes:
        status, message = refused(lambda: client.infer(model, inputs))
        assert status == f"StatusCode.{expected}", (expected, status, message)
    status, message = refused(lambda: client.get_system_shared_memory_status())
    assert status == "StatusCode.UNIMPLEMENTED", (status, message)


def case_200_megabytes(client):
    array = np.random.default_rng(2).integers(0, 255, (50, WIDE_ROW_BYTES), np.uint8)
    reply = client.infer("wide", [tensor("x", array)])
    assert (reply.as_numpy("y") == array).all()


def main():
    outcomes = {}
    with triton.InferenceServerClient(sys.argv[1]) as client:
        for name, case in list(globals().items()):
            if not name.startswith("case_"):
                continue
            try:
                case(client)
                outcomes[name] = "passed"
            except Exception:  # reported, not swallowed
                outcomes[name] = traceback.format_exc()
    json.dump(outcomes, sys.stdout)


main()
