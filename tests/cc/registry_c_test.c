/* Registers the kit's handlers from C, and reads the errors of doing so. */

#include <stdio.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/c_api_names.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/registration/registry.h"

static int failures = 0;

static void Expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "FAILED: %s\n", what);
}

/* Copies the text of an error, "" for none, and frees the error. */
static void TakeMessage(const XLA_FFI_Api* api, XLA_FFI_Error* error,
                        char* text, size_t size) {
  XLA_FFI_Error_GetDetails_Args get = {0};
  XLA_FFI_Error_Destroy_Args destroy = {0};
  text[0] = '\0';
  if (error == NULL) return;
  get.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  get.error = error;
  api->XLA_FFI_Error_GetDetails(&get);
  snprintf(text, size, "%s", get.message);
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
}

/* Says for which version of the FFI it was built, and does no more. */
static XLA_FFI_Error* Taken(XLA_FFI_CallFrame* frame) {
  XLA_FFI_InternalExtension* extension = frame->extension_start;
  if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata =
        ((XLA_FFI_Metadata_Extension*)extension)->metadata;
    metadata->api_version.major_version = 0;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  }
  return NULL;
}

static XLA_FFI_Error* Register(const XLA_FFI_Api* api, const char* name,
                               XLA_FFI_Handler* handler) {
  XLA_FFI_Handler_Register_Args args = {0};
  args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  args.name.ptr = name;
  args.name.len = strlen(name);
  args.platform.ptr = "Host";
  args.platform.len = strlen("Host");
  args.bundle.execute = handler;
  return api->XLA_FFI_Handler_Register(&args);
}

int main(void) {
  const XLA_FFI_Api* api = XLA_FFI_GetApi();
  const XlaFfiKit_HandlerTable* table = XlaFfiKit_CpuHandlerTable();
  char text[1000];

  Expect(table->struct_size == sizeof *table, "the table has its size");
  Expect(table->num_handlers > 0, "there are handlers");

  /* Taken by another before: an error that names the target. */
  const XlaFfiKit_Handler* first = &table->handlers[0];
  TakeMessage(api, Register(api, first->name, Taken), text, sizeof text);
  Expect(strcmp(text, "") == 0, text);
  TakeMessage(api, XlaFfiKit_RegisterCpuHandlers(api), text, sizeof text);
  printf("taken: %s\n", text);
  Expect(strstr(text, first->name) != NULL, "the error names the target");
  Expect(strstr(text, "uplicate") != NULL, "the error says what is wrong");

  printf("%d failures\n", failures);
  return failures;
}
