#include "xla_ffi/testing/fake_api.h"

#include <algorithm>
#include <chrono>  // NOLINT
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>  // NOLINT
#include <string>
#include <utility>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/c_api_names.h"

namespace xla_ffi_kit::testing {
namespace {

XLA_FFI_Error* MakeError(XLA_FFI_Error_Code code, std::string message) {
  return reinterpret_cast<XLA_FFI_Error*>(
      new FakeError{code, std::move(message)});
}

XLA_FFI_Error* Unavailable(const std::string& what) {
  return MakeError(XLA_FFI_Error_Code_UNIMPLEMENTED,
                   what + " is not available in this call frame");
}

FakeError* AsFake(XLA_FFI_Error* error) {
  return reinterpret_cast<FakeError*>(error);
}

FakeContext* AsFake(XLA_FFI_ExecutionContext* context) {
  return reinterpret_cast<FakeContext*>(context);
}

FakeFuture* AsFake(XLA_FFI_Future* future) {
  return reinterpret_cast<FakeFuture*>(future);
}

// The types of this program, as XLA's own registry has them.
struct Types {
  std::mutex mutex;
  std::map<std::string, int64_t> ids;
  std::map<int64_t, XLA_FFI_TypeInfo> infos;
};

Types& AllTypes() {
  static auto* types = new Types;
  return *types;
}

XLA_FFI_Error* RegisterType(XLA_FFI_Type_Register_Args* args) {
  Types& types = AllTypes();
  const std::string name(args->name.ptr, args->name.len);
  std::lock_guard<std::mutex> lock(types.mutex);
  const auto type = types.ids.find(name);
  if (type != types.ids.end()) {
    if (type->second == args->type_id->type_id) return nullptr;
    return MakeError(XLA_FFI_Error_Code_ALREADY_EXISTS,
                     "Type name " + name + " already registered");
  }
  const int64_t id = static_cast<int64_t>(types.ids.size()) + 1;
  types.ids[name] = id;
  types.infos[id] = *args->type_info;
  args->type_id->type_id = id;
  return nullptr;
}

XLA_FFI_Error* Schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  FakeContext* context = AsFake(args->ctx);
  if (context->num_threads == 0) return Unavailable("a thread pool");
  std::lock_guard<std::mutex> lock(context->mutex);
  try {
    context->tasks.emplace_back(args->task, args->data);
  } catch (const std::exception& error) {
    return MakeError(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, error.what());
  }
  return nullptr;
}

XLA_FFI_Error* NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  const int64_t threads = AsFake(args->ctx)->num_threads;
  if (threads == 0) return Unavailable("a thread pool");
  *args->num_threads = threads;
  return nullptr;
}

XLA_FFI_Error* Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  FakeContext* context = AsFake(args->ctx);
  if (!context->scratch_bytes) return Unavailable("scratch memory");
  if (args->alignment > 16) {
    return MakeError(
        XLA_FFI_Error_Code_INVALID_ARGUMENT,
        "Unsupported alignment: " + std::to_string(args->alignment));
  }
  std::lock_guard<std::mutex> lock(context->mutex);
  size_t used = args->size;
  for (const auto& [data, size] : context->scratch) used += size;
  if (used > *context->scratch_bytes) {
    return MakeError(XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                     "out of scratch memory");
  }
  // aligned_alloc() wants a multiple of the alignment, here XLA's own.
  constexpr size_t kAlignment = 256;
  const size_t size = (std::max<size_t>(args->size, 1) + kAlignment - 1) /
                      kAlignment * kAlignment;
  args->data = std::aligned_alloc(kAlignment, size);
  context->scratch[args->data] = args->size;
  return nullptr;
}

XLA_FFI_Error* Free(XLA_FFI_DeviceMemory_Free_Args* args) {
  FakeContext* context = AsFake(args->ctx);
  std::lock_guard<std::mutex> lock(context->mutex);
  const auto memory = context->scratch.find(args->data);
  if (memory == context->scratch.end() || memory->second != args->size) {
    return MakeError(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                     "not an allocation of this call, or another size");
  }
  std::free(args->data);
  context->scratch.erase(memory);
  return nullptr;
}

XLA_FFI_Error* GetUserData(XLA_FFI_InvokeContext_Get_Args* args) {
  const std::map<int64_t, void*>& all = AsFake(args->ctx)->user_data;
  const auto data = all.find(args->type_id->type_id);
  if (data == all.end()) {
    return MakeError(XLA_FFI_Error_Code_NOT_FOUND,
                     "User data with type id " +
                         std::to_string(args->type_id->type_id) +
                         " not found in execution context");
  }
  args->data = data->second;
  return nullptr;
}

XLA_FFI_Api MakeApi() {
  XLA_FFI_Api api = {};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr,
                     XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) {
    return MakeError(args->errc, args->message);
  };
  api.XLA_FFI_Error_GetDetails = [](XLA_FFI_Error_GetDetails_Args* args) {
    args->message = AsFake(args->error)->message.c_str();
#if XLA_FFI_KIT_ERROR_HAS_CODE
    args->errc = AsFake(args->error)->code;
#endif
  };
  api.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) {
    delete AsFake(args->error);
  };
  api.XLA_FFI_Handler_Register = [](XLA_FFI_Handler_Register_Args*) {
    return Unavailable("registering handlers");
  };
  api.XLA_FFI_Type_Register = RegisterType;
  api.XLA_FFI_InvokeContext_Get = GetUserData;
  api.XLA_FFI_State_Set = [](XLA_FFI_State_Set_Args* args) {
    HandlerState* state = AsFake(args->ctx)->state;
    if (state == nullptr) return Unavailable("state");
    return state->Set(*args->type_id, args->state);
  };
  api.XLA_FFI_State_Get = [](XLA_FFI_State_Get_Args* args) {
    HandlerState* state = AsFake(args->ctx)->state;
    if (state == nullptr) return Unavailable("state");
    return state->Get(*args->type_id, &args->state);
  };
  api.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
    args->stream = AsFake(args->ctx)->stream;
    return nullptr;
  };
  api.XLA_FFI_DeviceMemory_Allocate = Allocate;
  api.XLA_FFI_DeviceMemory_Free = Free;
  api.XLA_FFI_ThreadPool_Schedule = Schedule;
  api.XLA_FFI_ThreadPool_NumThreads = NumThreads;
  api.XLA_FFI_Future_Create =
      [](XLA_FFI_Future_Create_Args* args) -> XLA_FFI_Error* {
    args->future = reinterpret_cast<XLA_FFI_Future*>(new FakeFuture);
    return nullptr;
  };
  api.XLA_FFI_Future_SetAvailable =
      [](XLA_FFI_Future_SetAvailable_Args* args) -> XLA_FFI_Error* {
    AsFake(args->future)->Complete(nullptr);
    return nullptr;
  };
  api.XLA_FFI_Future_SetError =
      [](XLA_FFI_Future_SetError_Args* args) -> XLA_FFI_Error* {
    AsFake(args->future)->Complete(args->error);
    return nullptr;
  };
  api.XLA_FFI_RunId_Get = [](XLA_FFI_RunId_Get_Args* args) -> XLA_FFI_Error* {
    args->run_id = AsFake(args->ctx)->run_id;
    return nullptr;
  };
  api.XLA_FFI_DeviceOrdinal_Get =
      [](XLA_FFI_DeviceOrdinal_Get_Args* args) -> XLA_FFI_Error* {
    args->device_ordinal = AsFake(args->ctx)->device_ordinal;
    return nullptr;
  };
  return api;
}

// Deletes an object of a registered type.
void DeleteObject(int64_t type_id, void* object) {
  Types& types = AllTypes();
  std::unique_lock<std::mutex> lock(types.mutex);
  const auto info = types.infos.find(type_id);
  if (info == types.infos.end() || info->second.deleter == nullptr) return;
  const auto deleter = info->second.deleter;
  lock.unlock();
  deleter(object);
}

}  // namespace

HandlerState::~HandlerState() {
  if (object_ != nullptr) DeleteObject(type_id_, object_);
}

XLA_FFI_Error* HandlerState::Set(const XLA_FFI_TypeId& type, void* object) {
  if (object_ != nullptr) {
    DeleteObject(type.type_id, object);
    return MakeError(XLA_FFI_Error_Code_FAILED_PRECONDITION,
                     "State is already set");
  }
  type_id_ = type.type_id;
  object_ = object;
  return nullptr;
}

XLA_FFI_Error* HandlerState::Get(const XLA_FFI_TypeId& type,
                                 void** object) const {
  if (object_ == nullptr) {
    return MakeError(XLA_FFI_Error_Code_NOT_FOUND, "State is not set");
  }
  if (type.type_id != type_id_) {
    return MakeError(XLA_FFI_Error_Code_INVALID_ARGUMENT,
                     "Set state has type id " + std::to_string(type_id_) +
                         ", which is not the requested " +
                         std::to_string(type.type_id));
  }
  *object = object_;
  return nullptr;
}

bool FakeFuture::Await() {
  std::unique_lock<std::mutex> lock(mutex);
  return completed.wait_for(lock, std::chrono::minutes(1),
                            [this] { return is_complete; });
}

void FakeFuture::Complete(XLA_FFI_Error* result) {
  std::lock_guard<std::mutex> lock(mutex);
  error = result;
  is_complete = true;
  completed.notify_all();
}

FakeContext::~FakeContext() {
  // A task may add another while this one is waited for.
  std::unique_lock<std::mutex> lock(mutex);
  for (size_t i = 0; i < tasks.size(); ++i) {
    std::thread task = std::move(tasks[i]);
    lock.unlock();
    task.join();
    lock.lock();
  }
  for (const auto& [data, size] : scratch) std::free(data);
}

const XLA_FFI_Api* FakeApi() {
  static const XLA_FFI_Api api = MakeApi();
  return &api;
}

}  // namespace xla_ffi_kit::testing
