// A cuBLAS for tests without a GPU: multiplies on the CPU, at once, and counts
// its handles.

struct cublasContext {
  void* stream;
};

namespace {
int num_handles = 0;
void* last_stream = nullptr;
}  // namespace

extern "C" {

int FakeCublasNumHandles() { return num_handles; }
void* FakeCublasLastStream() { return last_stream; }

int cublasCreate_v2(cublasContext** handle) {
  if (num_handles == 2) return 3;
  ++num_handles;
  *handle = new cublasContext();
  return 0;
}

int cublasDestroy_v2(cublasContext* handle) {
  --num_handles;
  delete handle;
  return 0;
}

int cublasSetStream_v2(cublasContext* handle, void* stream) {
  handle->stream = stream;
  return 0;
}

// c = alpha a b + beta c; element (i, j) of a matrix is at [i + j * stride].
int cublasSgemm_v2(cublasContext* handle, int a_op, int b_op, int m, int n,
                   int k, const float* alpha, const float* a, int a_stride,
                   const float* b, int b_stride, const float* beta, float* c,
                   int c_stride) {
  last_stream = handle->stream;
  if (a_op != 0 || b_op != 0 || a_stride < m || b_stride < (k > 0 ? k : 1) ||
      c_stride < m) {
    return 7;
  }
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int l = 0; l < k; ++l)
        sum += a[i + l * a_stride] * b[l + j * b_stride];
      float& to = c[i + j * c_stride];
      to = *alpha * sum + (*beta == 0 ? 0 : *beta * to);
    }
  }
  return 0;
}

const char* cublasGetStatusString(int status) {
  return status == 3 ? "the resource allocation failed" : "an invalid value";
}

}  // extern "C"
