#include "xla_ffi/testing/fuzz/standalone_engine.h"

#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <chrono>  // NOLINT
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "xla_ffi/testing/fuzz/coverage.h"
#include "xla_ffi/testing/fuzz/mutator.h"

namespace xla_ffi_kit::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Options {
  double seconds = 10;
  int64_t runs = INT64_MAX;
  uint64_t seed = 1;
  std::vector<std::string> files;  // inputs to run once each, instead
};

// The input that is being run, for whoever ends the program.
std::string current_input;

// What the inputs have shown so far.
struct Behaviours {
  bool is_new = false;  // of the current input
  std::set<std::string> seen;
  Mutator* mutator = nullptr;
};
Behaviours behaviours;

// Async-signal-safe as far as a dying program needs it.
void SaveInput() {
  const char* directory = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string path =
      std::string(directory == nullptr ? "." : directory) + "/crash_input";
  std::ofstream(path, std::ios::binary) << current_input;
  std::fprintf(stderr, "The input is in %s; in hexadecimal:\n", path.c_str());
  for (const char c : current_input) {
    std::fprintf(stderr, "%02x", static_cast<unsigned char>(c));
  }
  std::fprintf(stderr, "\n");
  if (XlaFfiKit_FuzzDescribe != nullptr) XlaFfiKit_FuzzDescribe();
}

void OnSignal(int signal) {
  ::signal(signal, SIG_DFL);
  std::fprintf(stderr, "Signal %d%s.\n", signal,
               signal == SIGALRM ? ": an input took more than 30 seconds" : "");
  SaveInput();
  ::raise(signal);
}

void RunInput(const std::string& input) {
  current_input = input;
  behaviours.is_new = false;
  // A copy of exactly its size, so that reads beyond it are found.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  BeginCoverage();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  behaviours.is_new = EndCoverage() || behaviours.is_new;
}

class Engine {
 public:
  explicit Engine(const Options& options)
      : options_(options), random_(options.seed), mutator_(options.seed) {
    behaviours.mutator = &mutator_;
    corpus_.push_back({std::string(64, '\0'), /*is_slow=*/false});
  }

  void RunSeeds() {
    if (XlaFfiKit_FuzzSeed == nullptr) return;
    uint8_t data[64];
    for (int64_t i = 0; const size_t size = XlaFfiKit_FuzzSeed(i, data); ++i) {
      RunOne({reinterpret_cast<const char*>(data), size});
    }
  }

  void Run() {
    const Clock::time_point begin = Clock::now();
    double elapsed = 0;
    int64_t runs = 0;
    for (; runs < options_.runs && elapsed < options_.seconds; ++runs) {
      if (runs % 256 == 0) {
        ::alarm(30);
        elapsed = Seconds(Clock::now() - begin).count();
      }
      RunOne(mutator_.Mutate(Pick().input, Pick().input));
    }
    ::alarm(0);
    elapsed = Seconds(Clock::now() - begin).count();
    std::printf(
        "%lld runs in %.1f s, %.0f a second; seed %llu; %zu inputs kept, "
        "%lld code paths, %zu behaviours\n",
        static_cast<long long>(runs), elapsed, runs / elapsed,
        static_cast<unsigned long long>(options_.seed), corpus_.size(),
        static_cast<long long>(CoveredPaths()), behaviours.seen.size());
  }

 private:
  struct Entry {
    std::string input;
    bool is_slow;
  };

  const Entry& Pick() {
    for (;;) {
      const Entry& entry = corpus_[random_() % corpus_.size()];
      // Few of those take as long as all others together.
      if (!entry.is_slow || random_() % 64 == 0) return entry;
    }
  }

  void RunOne(const std::string& input) {
    const Clock::time_point begin = Clock::now();
    RunInput(input);
    if (!behaviours.is_new) return;
    const bool is_slow = Seconds(Clock::now() - begin).count() > 2e-4;
    corpus_.push_back({input, is_slow});
  }

  const Options options_;
  std::mt19937_64 random_;
  Mutator mutator_;
  std::vector<Entry> corpus_;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.rfind("-seconds=", 0) == 0) {
      options.seconds = std::stod(value);
    } else if (argument.rfind("-runs=", 0) == 0) {
      options.runs = std::stoll(value);
      options.seconds = 1e9;
    } else if (argument.rfind("-seed=", 0) == 0) {
      options.seed = std::stoull(value);
    } else {
      options.files.push_back(argument);
    }
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    ::signal(signal, OnSignal);
  }
  for (const std::string& path : options.files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: no such file\n", path.c_str());
      return 1;
    }
    RunInput({std::istreambuf_iterator<char>(file), {}});
  }
  if (!options.files.empty()) return 0;
  Engine engine(options);
  engine.RunSeeds();
  engine.Run();
  if (XlaFfiKit_FuzzReport == nullptr) return 0;
  return XlaFfiKit_FuzzReport() ? 0 : 1;
}

}  // namespace
}  // namespace xla_ffi_kit::testing

extern "C" void XlaFfiKit_FuzzObserve(const char* text, size_t size) {
  using namespace xla_ffi_kit::testing;  // NOLINT: an extern "C" function
  // What was got, instead of what was expected, is as varied as the inputs.
  std::string_view stable(text, size);
  for (const char* end : {" got ", "mismatch: "}) {
    stable = stable.substr(0, stable.find(end));
  }
  std::string behaviour;
  for (const std::string& word : WordsOf(stable)) {
    const bool is_number = std::isdigit(static_cast<unsigned char>(word[0]));
    if (!is_number) behaviour += word + " ";
  }
  if (!behaviours.seen.insert(behaviour).second) return;
  behaviours.is_new = true;
  behaviours.mutator->Learn({text, size});
}

// AddressSanitizer ends the program without a signal.
extern "C" void __sanitizer_set_death_callback(void (*callback)())
    __attribute__((weak));

int main(int argc, char** argv) {
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(xla_ffi_kit::testing::SaveInput);
  }
  return xla_ffi_kit::testing::Main(argc, argv);
}
