// Requests and replies on a pair of file descriptors.
//
// A request is a line with the shapes of its arrays, as in "f32[2,3] s32[]",
// and then their bytes, row by row, least significant first, one array after
// the other. The reply is "ok", the shapes of the results in the same line and
// their bytes, or a line that begins with "error".

#ifndef EXAMPLES_PJRT_SERVER_STREAM_H_
#define EXAMPLES_PJRT_SERVER_STREAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "examples/pjrt_server/pjrt/array.h"

namespace pjrt_server {

using xla_ffi_kit::pjrt::Array;
using xla_ffi_kit::pjrt::Error;
using xla_ffi_kit::pjrt::Shape;

// An error after which nobody knows where the next request begins.
struct Unreadable : Error {
  using Error::Error;
};

class Stream {
 public:
  // Reads `in` and writes `out`, which stay the caller's. Once `stop` is
  // readable, only what had already arrived is read.
  Stream(int in, int out, int stop) : in_(in), out_(out), stop_(stop) {}

  // Reads a request of these shapes. False at the end of the input. Throws
  // Unreadable, or Error for a request of other shapes, which is dropped.
  bool Read(const std::vector<Shape>& expected, std::vector<Array>* arrays);
  // False where nobody reads any more.
  bool Write(const std::string& line, const std::vector<Array>& arrays);

 private:
  bool Fill();
  bool ReadLine(std::string* line);
  void ReadBytes(char* to, size_t size);

  int in_, out_, stop_;
  bool stopping_ = false;
  size_t left_ = 0;     // of what had arrived when it was time to stop
  std::string buffer_;  // from begin_ on not yet read
  size_t begin_ = 0;
};

}  // namespace pjrt_server

#endif  // EXAMPLES_PJRT_SERVER_STREAM_H_
