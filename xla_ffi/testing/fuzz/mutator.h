// Changes inputs of a fuzzing target at random.

#ifndef XLA_FFI_TESTING_FUZZ_MUTATOR_H_
#define XLA_FFI_TESTING_FUZZ_MUTATOR_H_

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace xla_ffi_kit::testing {

// Letters, digits and underscores, two or more together.
inline std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word.push_back(c);
      continue;
    }
    if (word.size() > 1) words.push_back(word);
    word.clear();
  }
  return words;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // Adds the words of a text to those that mutations insert.
  void Learn(std::string_view text) {
    constexpr size_t kMaxWords = 1000;
    for (const std::string& word : WordsOf(text)) {
      if (words_.size() >= kMaxWords) return;
      if (known_.insert(word).second) words_.push_back(word);
    }
  }

  // `input` with one to eight changes, parts of `other` among them.
  std::string Mutate(std::string input, const std::string& other) {
    for (size_t left = 1 + Below(8) * Below(2); left > 0; --left) {
      if (input.empty()) input.push_back('\0');
      Change(input, other);
    }
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
    return input;
  }

 private:
  static constexpr size_t kMaxBytes = 256;

  size_t Below(size_t n) { return random_() % n; }
  char Byte() { return static_cast<char>(random_()); }

  void Change(std::string& input, const std::string& other) {
    const size_t at = Below(input.size());
    switch (Below(10)) {
      case 0:
      case 1:
      case 2:
        input[at] = Byte();
        break;
      case 3:
        input[at] = static_cast<char>(input[at] ^ 1 << Below(8));
        break;
      case 4:
        input[at] = static_cast<char>(input[at] + Below(9) - 4);
        break;
      case 5:
        input.insert(at, 1, Byte());
        break;
      case 6:
        input.erase(at, 1 + Below(4));
        break;
      case 7:  // the beginning of one and the rest of the other
        if (at < other.size()) input = input.substr(0, at) + other.substr(at);
        break;
      case 8:
        if (at < other.size()) {
          const size_t size = 1 + Below(8);
          input.replace(at, size, other.substr(at, size));
        }
        break;
      default:
        if (!words_.empty()) InsertWord(input, at);
        break;
    }
  }

  void InsertWord(std::string& input, size_t at) {
    const std::string& word = words_[Below(words_.size())];
    input.replace(at, Below(2) * word.size(), word);
    // Texts usually have their length before them, or what stands for it.
    if (at > 0) input[at - 1] = static_cast<char>(word.size() + Below(2) * 192);
  }

  std::mt19937_64 random_;
  std::set<std::string> known_;
  std::vector<std::string> words_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_MUTATOR_H_
