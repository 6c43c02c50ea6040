// The call-frame runner and the metadata reader for Python: any handler on
// NumPy arrays, in a process without JAX.
//
//   from call_frame import run
//   status = run(handler, [x], [y], {"eps": 1e-6}, threads=2)
//   assert status.code == "OK", status.message

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pybind11/numpy.h"
#include "pybind11/pybind11.h"
#include "pybind11/stl.h"
#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/testing/attributes.h"
#include "xla_ffi/testing/call_frame.h"

namespace {

namespace py = ::pybind11;
namespace ffi = ::xla::ffi;
namespace kit = ::xla_ffi_kit;

using kit::testing::Attributes;
using kit::testing::CallFrame;

// In the order of their numbers.
constexpr const char* kCodes[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

// In the order of their numbers.
constexpr const char* kStages[] = {"instantiate", "prepare", "initialize",
                                   "execute"};

// NumPy's names of XLA's types.
constexpr std::pair<const char*, ffi::DataType> kDtypes[] = {
    {"bool", ffi::DataType::PRED},
    {"int8", ffi::DataType::S8},
    {"int16", ffi::DataType::S16},
    {"int32", ffi::DataType::S32},
    {"int64", ffi::DataType::S64},
    {"uint8", ffi::DataType::U8},
    {"uint16", ffi::DataType::U16},
    {"uint32", ffi::DataType::U32},
    {"uint64", ffi::DataType::U64},
    {"float16", ffi::DataType::F16},
    {"bfloat16", ffi::DataType::BF16},
    {"float32", ffi::DataType::F32},
    {"float64", ffi::DataType::F64},
    {"complex64", ffi::DataType::C64},
    {"complex128", ffi::DataType::C128},
    {"float8_e4m3fn", ffi::DataType::F8E4M3FN},
    {"float8_e5m2", ffi::DataType::F8E5M2},
};

ffi::DataType DtypeOf(const py::array& array) {
  const auto name = py::cast<std::string>(array.dtype().attr("name"));
  for (const auto& [known, dtype] : kDtypes) {
    if (name == known) return dtype;
  }
  throw py::type_error("dtype " + name + " is none of XLA's");
}

CallFrame::Buffer BufferOf(py::array& array, bool is_result) {
  if (!(array.flags() & py::array::c_style)) {
    throw py::value_error("expected contiguous arrays, last axis fastest");
  }
  CallFrame::Buffer buffer;
  buffer.dtype = static_cast<XLA_FFI_DataType>(DtypeOf(array));
  // Throws where a result may not be written.
  buffer.data =
      is_result ? array.mutable_data() : const_cast<void*>(array.data());
  buffer.dims.assign(array.shape(), array.shape() + array.ndim());
  return buffer;
}

// A NumPy scalar, or an array of one axis.
void SetArray(Attributes& attributes, const std::string& name,
              const py::array& array) {
  using Types = kit::TypeList<bool, int8_t, int16_t, int32_t, int64_t, uint8_t,
                              uint16_t, uint32_t, uint64_t, float, double>;
  const ffi::Error error = kit::DispatchDtype(
      Types(), DtypeOf(array), {"call_frame", "attribute"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        const auto* data = static_cast<const T*>(array.data());
        if (array.ndim() == 0) {
          attributes.Set(name, *data);
        } else if constexpr (!std::is_same_v<T, bool>) {
          attributes.Set(name, std::vector<T>(data, data + array.size()));
        } else {
          return ffi::Error::InvalidArgument("attribute: arrays of bool");
        }
        return {};
      });
  if (error.failure()) throw py::type_error(error.message());
}

Attributes AttributesOf(const py::dict& dictionary) {
  Attributes attributes;
  for (const auto& [key, value] : dictionary) {
    const auto name = py::cast<std::string>(key);
    if (py::isinstance<py::bool_>(value)) {
      attributes.Set(name, py::cast<bool>(value));
    } else if (py::isinstance<py::int_>(value)) {
      attributes.Set(name, py::cast<int64_t>(value));
    } else if (py::isinstance<py::str>(value)) {
      attributes.Set(name, py::cast<std::string>(value));
    } else if (py::isinstance<py::dict>(value)) {
      attributes.Set(name, AttributesOf(py::cast<py::dict>(value)));
    } else if (PyFloat_CheckExact(value.ptr())) {
      attributes.Set(name, py::cast<double>(value));
    } else {
      SetArray(attributes, name, py::array::ensure(value));
    }
  }
  return attributes;
}

// A capsule, as jax.ffi takes handlers, or an address.
XLA_FFI_Handler* HandlerOf(const py::object& handler) {
  void* const address =
      py::isinstance<py::capsule>(handler)
          ? py::cast<py::capsule>(handler).get_pointer()
          : reinterpret_cast<void*>(py::cast<uintptr_t>(handler));
  if (address == nullptr) throw py::value_error("the handler is null");
  return reinterpret_cast<XLA_FFI_Handler*>(address);
}

XLA_FFI_ExecutionStage StageOf(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kStages[i]) return static_cast<XLA_FFI_ExecutionStage>(i);
  }
  throw py::value_error("stage " + name + " is none of FFI's");
}

kit::testing::Status Run(const py::object& handler, std::vector<py::array> args,
                         std::vector<py::array> rets, const py::dict& attrs,
                         const std::string& stage, int64_t threads) {
  CallFrame frame;
  for (py::array& array : args) {
    frame.args().push_back(BufferOf(array, /*is_result=*/false));
  }
  for (py::array& array : rets) {
    frame.rets().push_back(BufferOf(array, /*is_result=*/true));
  }
  frame.attributes() = AttributesOf(attrs);
  frame.Threads(threads);
  XLA_FFI_Handler* const function = HandlerOf(handler);
  const XLA_FFI_ExecutionStage number = StageOf(stage);
  py::gil_scoped_release release;  // as in a handler that XLA calls
  return frame.Run(function, number);
}

kit::testing::Metadata ReadMetadata(const py::object& handler) {
  return kit::testing::GetMetadata(HandlerOf(handler));
}

}  // namespace

PYBIND11_MODULE(call_frame, m) {
  m.doc() = "Runs XLA FFI handlers on NumPy arrays, without XLA.";
  py::class_<kit::testing::Status>(m, "Status", "What a handler returned.")
      .def_property_readonly(
          "code",
          [](const kit::testing::Status& status) {
            return kCodes[status.code];
          },
          "XLA's name of the error, or \"OK\".")
      .def_readonly("message", &kit::testing::Status::message)
      .def("__repr__", [](const kit::testing::Status& status) {
        return std::string(kCodes[status.code]) + ": " + status.message;
      });
  py::class_<kit::testing::Metadata>(m, "Metadata",
                                     "What a handler says about itself.")
      .def_readonly("status", &kit::testing::Metadata::status)
      .def_property_readonly("api_version",
                             [](const kit::testing::Metadata& metadata) {
                               return py::make_tuple(metadata.major_version,
                                                     metadata.minor_version);
                             })
      .def_readonly("traits", &kit::testing::Metadata::traits)
      .def_readonly("state_type_id", &kit::testing::Metadata::state_type_id);
  m.def("run", &Run, py::arg("handler"), py::arg("args"), py::arg("rets"),
        py::arg("attrs") = py::dict(), py::kw_only(),
        py::arg("stage") = "execute", py::arg("threads") = 1,
        "Runs a handler (a capsule, or its address) on operands and results, "
        "and returns its Status. Python's own numbers are s64 and f64 "
        "attributes, NumPy's have their dtype.");
  m.def("metadata", &ReadMetadata, py::arg("handler"),
        "Asks a handler for its metadata, without running it.");
}
