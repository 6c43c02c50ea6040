"""The C structs the kit reads from handler libraries, in ctypes.

Two sources: the handler table (`xla_ffi/core/handler_table.h`) and the part of
XLA's FFI (`xla/ffi/api/c_api.h`) that a metadata call needs. A metadata call
asks a handler for its API version and traits without running it; see
`XLA_FFI_Metadata_Extension` there.
"""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)

TABLE_SYMBOL = "XlaFfiKit_GetHandlerTable"

# Later headers may append fields and then ask for a larger struct_size; the
# zeroed tail lets this reader ask handlers built with them as well.
_SPARE_BYTES = 64

METADATA_EXTENSION = 1  # XLA_FFI_Extension_Metadata
_STAGE_EXECUTE = 3  # XLA_FFI_ExecutionStage_EXECUTE

COMMAND_BUFFER_COMPATIBLE = 1  # XLA_FFI_Handler_TraitsBits


class HandlerEntry(ctypes.Structure):
    """`XlaFfiKit_Handler`."""

    _fields_ = [
        ("name", c_char_p),
        ("platform", c_char_p),
        ("instantiate", c_void_p),
        ("prepare", c_void_p),
        ("initialize", c_void_p),
        ("execute", c_void_p),
        ("signature", c_void_p),  # not in older tables
    ]


class TypeEntry(ctypes.Structure):
    """`XlaFfiKit_Type`."""

    _fields_ = [
        ("name", c_char_p),
        ("platform", c_char_p),
        ("type_id", c_void_p),
        ("type_info", c_void_p),
    ]


class HandlerTable(ctypes.Structure):
    """`XlaFfiKit_HandlerTable`, the fields this reader needs."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("handler_size", c_size_t),
        ("type_size", c_size_t),
        ("library", c_char_p),
        ("api_major", c_int32),
        ("api_minor", c_int32),
        ("num_handlers", c_size_t),
        ("handlers", c_void_p),
        ("num_types", c_size_t),
        ("types", c_void_p),
        ("register_all", c_void_p),
        ("parallel_for", POINTER(c_void_p)),  # not in the oldest tables
    ]


class _Sized(ctypes.Structure):
    """The two fields that every struct of the FFI begins with."""

    _fields_ = [("struct_size", c_size_t), ("extension_start", c_void_p)]


class _ApiVersion(_Sized):
    _fields_ = [("major_version", c_int), ("minor_version", c_int)]


class ErrorCreateArgs(_Sized):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = [("message", c_char_p), ("code", c_int)]


_ErrorCreate = ctypes.CFUNCTYPE(c_void_p, POINTER(ErrorCreateArgs))
_Unavailable = ctypes.CFUNCTYPE(c_void_p, c_void_p)


class Api(_Sized):
    """`XLA_FFI_Api`: creating an error is all that a metadata call may do."""

    _fields_ = [
        ("api_version", _ApiVersion),
        ("internal_api", c_void_p),
        ("error_create", _ErrorCreate),
        ("others", _Unavailable * 64),
    ]


class MetadataStruct(ctypes.Structure):
    """`XLA_FFI_Metadata`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("api_version", _ApiVersion),
        ("traits", c_uint32),
        ("state_type_id", c_int64),
        ("spare", ctypes.c_char * _SPARE_BYTES),
    ]


class MetadataExtension(ctypes.Structure):
    """`XLA_FFI_Metadata_Extension`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
        ("metadata", POINTER(MetadataStruct)),
        ("spare", ctypes.c_char * _SPARE_BYTES),
    ]


class Buffer(_Sized):
    """`XLA_FFI_Buffer`."""

    _fields_ = [
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", c_void_p),
    ]


class Args(_Sized):
    """`XLA_FFI_Args` and `XLA_FFI_Rets`."""

    _fields_ = [("size", c_int64), ("types", c_void_p), ("values", c_void_p)]


class Attrs(_Sized):
    """`XLA_FFI_Attrs`."""

    _fields_ = [
        ("size", c_int64),
        ("types", c_void_p),
        ("names", c_void_p),
        ("values", c_void_p),
    ]


class CallFrame(_Sized):
    """`XLA_FFI_CallFrame`."""

    _fields_ = [
        ("api", POINTER(Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("args", Args),
        ("rets", Args),
        ("attrs", Attrs),
        ("future", c_void_p),
    ]


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(CallFrame))


@dataclasses.dataclass(frozen=True)
class Metadata:
    """A handler's metadata."""

    api_version: tuple[int, int]
    traits: int
    state_type_id: int  # of the state that it makes; 0 if it makes none


def read_metadata(address: int) -> Metadata:
    """Asks the handler at `address` for its metadata, without running it.

    Raises ValueError with the handler's own message if it answers with an
    error (a stateful handler does so before its type is registered).
    """
    metadata, returned, message = metadata_call(address)
    if returned:
        raise ValueError(message or "unknown error")
    return metadata


def metadata_call(address: int) -> tuple[Metadata, int, str]:
    """Calls a function as XLA asks a handler for its metadata.

    Returns:
      The metadata, which is zero if the function is no handler; what the
      function returns, the address of an error if it is one; and the message of
      the error that it made.
    """
    message = ""

    def create_error(args: ctypes._Pointer[ErrorCreateArgs]) -> int:
        nonlocal message
        message = (args.contents.message or b"").decode(errors="replace")
        return 1  # any non-null pointer: an error that nobody frees

    def unavailable(_: int) -> int:
        return 0

    api = Api()
    api.struct_size = ctypes.sizeof(Api)
    api.error_create = _ErrorCreate(create_error)
    nothing = _Unavailable(unavailable)
    for i in range(len(api.others)):
        api.others[i] = nothing

    metadata = MetadataStruct(struct_size=ctypes.sizeof(MetadataStruct))
    extension = MetadataExtension(
        struct_size=ctypes.sizeof(MetadataExtension),
        type=METADATA_EXTENSION,
        metadata=ctypes.pointer(metadata),
    )
    # Handlers compare this size for equality, and the header leaves `future`
    # out of it.
    frame = CallFrame(struct_size=CallFrame.future.offset)
    frame.extension_start = ctypes.addressof(extension)
    frame.api = ctypes.pointer(api)
    frame.stage = _STAGE_EXECUTE

    returned: int | None = _Handler(address)(ctypes.byref(frame))
    version = metadata.api_version
    return (
        Metadata(
            (version.major_version, version.minor_version),
            metadata.traits,
            metadata.state_type_id,
        ),
        returned or 0,
        message,
    )
