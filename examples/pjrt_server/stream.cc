#include "examples/pjrt_server/stream.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace pjrt_server {
namespace {

constexpr size_t kBlock = 1 << 16;

std::string Text(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += " " + shape.Text();
  return text.empty() ? "no arrays" : text.substr(1);
}

Shape ParseShape(const std::string& word) {
  const size_t bracket = word.find('[');
  Shape shape = {nullptr, {}};
  for (const auto& dtype : xla_ffi_kit::pjrt::kDtypes) {
    if (word.compare(0, bracket, dtype.name) == 0) shape.dtype = &dtype;
  }
  if (shape.dtype != nullptr && bracket != std::string::npos) {
    std::istringstream dims(word.substr(bracket + 1));
    if (dims.str() == "]") return shape;
    int64_t dim = 0;
    for (char next = ','; next == ',' && dims.peek() != '-' && dims >> dim;) {
      shape.dims.push_back(dim);
      dims >> next;
      if (next == ']' && dims.peek() == EOF) return shape;
    }
  }
  throw Unreadable("expected a line of shapes such as f32[2,3], got \"" +
                   word.substr(0, 40) + "\"");
}

}  // namespace

// Appends what has arrived to the buffer. False at the end.
bool Stream::Fill() {
  pollfd wait[] = {{in_, POLLIN, 0}, {stop_, POLLIN, 0}};
  while (!stopping_ && poll(wait, 2, -1) < 0) continue;  // a signal
  if (!stopping_ && wait[1].revents != 0) {
    stopping_ = true;
    int arrived = 0;
    if (ioctl(in_, FIONREAD, &arrived) == 0) left_ = size_t(arrived);
  }
  if (stopping_ && left_ == 0) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old = buffer_.size();
  buffer_.resize(old + (stopping_ ? std::min(left_, kBlock) : kBlock));
  const ssize_t got = read(in_, &buffer_[old], buffer_.size() - old);
  buffer_.resize(old + size_t(std::max<ssize_t>(got, 0)));
  if (got < 0 && errno == EINTR) return Fill();
  if (stopping_ && got > 0) left_ -= size_t(got);
  return got > 0;
}

bool Stream::ReadLine(std::string* line) {
  size_t end;
  while ((end = buffer_.find('\n', begin_)) == std::string::npos) {
    if (buffer_.size() - begin_ > kBlock) ParseShape(buffer_.substr(begin_));
    if (Fill()) continue;
    if (begin_ == buffer_.size()) return false;
    throw Unreadable("it ended within its line of shapes: nothing of it ran");
  }
  *line = buffer_.substr(begin_, end - begin_);
  begin_ = end + 1;
  return true;
}

// Drops the bytes if `to` is null.
void Stream::ReadBytes(char* to, size_t size) {
  for (size_t done = 0; done < size;) {
    if (begin_ == buffer_.size() && !Fill()) {
      throw Unreadable(
          std::string(stopping_ ? "the server is stopping: " : "") +
          "it ended after " + std::to_string(done) + " of " +
          std::to_string(size) + " bytes: nothing of it ran");
    }
    const size_t part = std::min(size - done, buffer_.size() - begin_);
    if (to != nullptr) std::memcpy(to + done, &buffer_[begin_], part);
    begin_ += part;
    done += part;
  }
}

bool Stream::Read(const std::vector<Shape>& expected,
                  std::vector<Array>* arrays) {
  std::string line;
  if (!ReadLine(&line)) return false;
  std::vector<Shape> shapes;
  std::istringstream words(line);
  for (std::string word; words >> word;) shapes.push_back(ParseShape(word));
  try {
    for (const Shape& shape : shapes) shape.Bytes();
  } catch (const Error& error) {
    throw Unreadable(error.what());
  }
  const bool fits = Text(shapes) == Text(expected);
  arrays->clear();
  for (const Shape& shape : shapes) {
    const auto size = size_t(shape.Bytes());
    arrays->push_back({shape, std::string(fits ? size : 0, '\0')});
    ReadBytes(fits ? arrays->back().bytes.data() : nullptr, size);
  }
  if (fits) return true;
  throw Error("the program takes " + Text(expected) + ", got " + Text(shapes));
}

bool Stream::Write(const std::string& line, const std::vector<Array>& arrays) {
  std::string text = line;
  for (const Array& array : arrays) text += " " + array.shape.Text();
  text += "\n";
  for (const Array& array : arrays) text += array.bytes;
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = write(out_, &text[done], text.size() - done);
    if (put < 0 && errno != EINTR) return false;
    done += size_t(std::max<ssize_t>(put, 0));
  }
  return true;
}

}  // namespace pjrt_server
