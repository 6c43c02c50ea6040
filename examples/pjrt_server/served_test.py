"""What JAX exports, served: its results bit for bit, and what is refused."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import client
import jax
import jax.numpy as jnp
import model
import numpy as np
import pytest
from jax.sharding import PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)

SERVER, PLUGIN, HANDLERS, EXAMPLES = (
    os.path.abspath(os.environ[name])
    for name in ("SERVER", "PLUGIN", "HANDLERS", "EXAMPLES")
)


def export(
    function: Callable[..., Any], *arguments: Any, **options: Any
) -> bytes:
    """What jax.export writes of a function, whatever handlers it calls."""
    options.setdefault("platforms", ["cpu"])
    exported = jax.export.export(
        jax.jit(function),
        disabled_checks=[
            jax.export.DisabledSafetyCheck.custom_call(name)
            for name in ("examples.counter", "examples.fail", "nobody.has_it")
        ],
        **options,
    )(*arguments)
    return bytes(exported.serialize())


def serve(
    folder: pathlib.Path, program: bytes, stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Runs the server on requests in its stdin."""
    path = folder / "program"
    path.write_bytes(program)
    libraries = [f"--library={library}" for library in (HANDLERS, EXAMPLES)]
    return subprocess.run(
        [SERVER, PLUGIN, path, *libraries], input=stdin, capture_output=True
    )


def refusal(folder: pathlib.Path, program: bytes) -> str:
    """The one sentence with which the server ends."""
    ended = serve(folder, program, b"")
    assert ended.returncode == 1, ended
    assert ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    return line


def test_every_result_is_that_of_jax(tmp_path):
    ended = serve(tmp_path, model.program(), 5 * model.request())
    assert ended.stderr == b""
    assert ended.stdout == 5 * model.reply()


@contextlib.contextmanager
def listening(folder: pathlib.Path, program: bytes) -> Iterator[pathlib.Path]:
    """A server on a socket, and the socket's path."""
    (folder / "program").write_bytes(program)
    # The folders of tests have too long names for a socket.
    path = pathlib.Path(tempfile.mkdtemp(dir="/tmp"), "socket")
    command = [SERVER, PLUGIN, folder / "program", f"--library={HANDLERS}"]
    command += [f"--library={EXAMPLES}", f"--socket={path}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        assert server.stderr.readline().startswith(
            "pjrt_server: count: listening"
        )
        yield path
        server.terminate()
        assert server.wait() == 0


def test_client_over_a_socket_and_state(tmp_path):
    """The counter's Instantiate stage ran, and its state outlives a request."""

    def count(x):
        call = jax.ffi.ffi_call(
            "examples.counter",
            jax.ShapeDtypeStruct((), np.int32),
            has_side_effect=True,
        )
        return call(start=np.int32(10)), jnp.flip(x), x.astype(jnp.bfloat16)

    x = np.arange(3, dtype=np.float32)
    with listening(tmp_path, export(count, x)) as path:
        for expected in (10, 11, 12):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                stream = connection.makefile("rwb")
                client.write(stream, [x])
                stream.flush()
                number, flipped, half = client.read(stream)
            assert number == expected
            np.testing.assert_array_equal(flipped, x[::-1])
            assert half.dtype == jnp.bfloat16


def test_program_without_arguments_and_without_results(tmp_path):
    ended = serve(tmp_path, export(lambda: np.float32(3)), b"\n\n")
    assert ended.stdout == 2 * (b"ok f32[]\n" + np.float32(3).tobytes())
    assert serve(tmp_path, export(lambda: ()), b"\n").stdout == b"ok\n"


def test_error_of_a_handler_is_the_reply(tmp_path):
    def fail():
        call = jax.ffi.ffi_call(
            "examples.fail", jax.ShapeDtypeStruct((), np.int32)
        )
        return call(code=np.int32(3), message="out of tea")

    replies = serve(tmp_path, export(fail), b"\n\n").stdout.decode()
    first, second = replies.splitlines()
    assert first.startswith(
        "error request 1: running the program: INVALID_ARGUMENT: "
    )
    assert "out of tea" in first
    assert second.startswith("error request 2: ")


def test_symbolic_shapes_are_refused(tmp_path):
    n = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct(n, np.float32)
    assert "has the symbolic dimension n: export it for fixed shapes" in (
        refusal(tmp_path, export(jnp.sin, x))
    )


def test_several_platforms_are_refused(tmp_path):
    program = export(jnp.sin, np.float32(1), platforms=["cpu", "cuda"])
    assert 'is for 2 platforms: export it for one, platforms=["cpu"]' in (
        refusal(tmp_path, program)
    )


def test_several_devices_are_refused(tmp_path):
    mesh = jax.make_mesh((2,), ("rows",))
    sharding = jax.sharding.NamedSharding(mesh, PartitionSpec("rows"))
    x = jax.ShapeDtypeStruct((4,), np.float32, sharding=sharding)
    assert "is for several devices: export it without a mesh" in (
        refusal(tmp_path, export(jnp.sin, x))
    )


def test_dtype_that_is_not_served_is_refused(tmp_path):
    x = jax.ShapeDtypeStruct((4,), jnp.float8_e4m3fn)
    assert "has an argument of a dtype that is not served" in (
        refusal(tmp_path, export(lambda x: x, x))
    )


def test_target_that_nobody_registered_is_named(tmp_path):
    def absent(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call("nobody.has_it", shape)(x)

    assert "nobody.has_it" in refusal(tmp_path, export(absent, np.float32(1)))


@pytest.mark.parametrize("vjp_order", [1])
def test_program_with_its_derivative_is_served(tmp_path, vjp_order):
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["cpu"])(
        jax.ShapeDtypeStruct((2,), np.float32)
    )
    x = np.float32([1, 2])
    ended = serve(
        tmp_path,
        bytes(exported.serialize(vjp_order=vjp_order)),
        b"f32[2]\n" + x.tobytes(),
    )
    assert ended.stdout == b"ok f32[2]\n" + np.asarray(jnp.sin(x)).tobytes()
