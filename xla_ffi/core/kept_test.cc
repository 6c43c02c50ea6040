#include "xla_ffi/core/kept.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>  // NOLINT
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"

// The BUILD file sets the bounds: 8 objects, and 1 MB.
namespace xla_ffi_kit {
namespace {

constexpr int kThreads = 16;

std::atomic<int> made{0}, alive{0};

// What all objects of the tests do: count.
struct Counted {
  Counted() : number(++made) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  const int number;
};

struct Sum : Counted {
  template <typename... Numbers>
  explicit Sum(const std::vector<double>& xs, Numbers... more) {
    for (const double x : xs) sum += x;
    ((sum += more), ...);
  }
  size_t bytes() const { return 100; }
  double sum = 0;
};

struct Name : Counted {
  explicit Name(std::string_view name) : text(name) {}
  std::string text;
};

// Begins on all threads at the same time.
void OnThreads(const std::function<void(int)>& task) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      task(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(KeptTest, IsMadeOncePerContent) {
  const std::vector<double> xs = {1, 2}, same = xs, other = {1, 3};
  const Kept<Sum> first(xs);
  EXPECT_EQ(first->sum, 3);
  EXPECT_EQ(Kept<Sum>(same).get(), first.get());
  EXPECT_EQ(Kept<Sum>(first).get(), first.get());  // a copy
  EXPECT_EQ(Kept<Sum>(other)->sum, 4);
  const int before = made;
  EXPECT_EQ(Kept<Sum>(xs, 1)->sum, 4);
  EXPECT_EQ(Kept<Sum>(xs, 1.0)->sum, 4);
  EXPECT_EQ(Kept<Sum>(xs, int64_t{1})->sum, 4);
  EXPECT_EQ(Kept<Sum>(xs, 1, 2)->sum, 6);
  EXPECT_NE(Kept<Sum>(xs, 0).get(), Kept<Sum>(xs, 0.f).get());  // same bytes
  EXPECT_EQ(Kept<Sum>(xs, 1, 2).get(), Kept<Sum>(xs, 1, 2).get());
  EXPECT_EQ(made, before + 6);
}

TEST(KeptTest, ComplexNumbersAreParts) {
  struct Total : Counted {
    Total(const std::vector<std::complex<double>>& xs, std::complex<float> y)
        : sum(xs[0] + std::complex<double>(y)) {}
    std::complex<double> sum;
  };
  const std::vector<std::complex<double>> xs = {{1, 2}}, other = {{1, 3}};
  const std::complex<float> y(0, 1);
  const Kept<Total> first(xs, y);
  EXPECT_EQ(first->sum, std::complex<double>(1, 3));
  EXPECT_EQ(Kept<Total>(xs, y).get(), first.get());
  EXPECT_NE(Kept<Total>(xs, y + y).get(), first.get());
  EXPECT_NE(Kept<Total>(other, y).get(), first.get());
}

TEST(KeptTest, KeysEndWhereTheyEnd) {
  struct Two : Counted {
    Two(std::string_view, std::string_view) {}
  };
  EXPECT_NE(Kept<Two>(std::string_view("ab"), std::string_view("c")).get(),
            Kept<Two>(std::string_view("a"), std::string_view("bc")).get());
  const std::vector<double> none;
  EXPECT_EQ(Kept<Sum>(none)->sum, 0);
  // Of two types, the same bytes are two objects.
  const std::string_view text("ab");
  struct Other : Name {
    using Name::Name;
  };
  EXPECT_NE(static_cast<const Name*>(Kept<Name>(text).get()),
            static_cast<const Name*>(Kept<Other>(text).get()));
}

TEST(KeptTest, LongKeysDifferInAnyByte) {
  for (const size_t size : {1, 7, 8, 31, 32, 33, 63, 64, 65, 1000}) {
    const std::string zeros(size, 0);
    const Kept<Name> first{std::string_view(zeros)};
    for (size_t i = 0; i < size; i += 1 + size / 50) {
      std::string other = zeros;
      other[i] = 1;
      EXPECT_EQ(Kept<Name>(std::string_view(other))->text, other);
    }
    EXPECT_NE(Kept<Name>(std::string_view(zeros + '\0')).get(), first.get());
  }
}

// A buffer of the FFI is its type, its shape and its content.
TEST(KeptTest, BuffersOfHandlers) {
  struct Rank : Counted {
    explicit Rank(const xla::ffi::AnyBuffer& x) : rank(x.dimensions().size()) {}
    size_t rank;
  };
  float data[] = {1, 2, 3, 4};
  int64_t dims[] = {4, 2, 2, 1, 4};
  XLA_FFI_Buffer c = {};
  c.dtype = XLA_FFI_DataType_F32;
  c.data = data;
  const auto of = [&](int first, int rank) {
    c.dims = dims + first;
    c.rank = rank;
    return Kept<Rank>(xla::ffi::AnyBuffer(&c));
  };
  EXPECT_EQ(of(0, 1)->rank, 1u);
  EXPECT_EQ(of(1, 2)->rank, 2u);
  EXPECT_NE(of(1, 2)->number, of(3, 2)->number);  // (2, 2) and (1, 4)
  const int number = of(0, 1)->number;
  c.dtype = XLA_FFI_DataType_S32;
  EXPECT_NE(of(0, 1)->number, number);
  c.dtype = XLA_FFI_DataType_F32;
  EXPECT_EQ(of(0, 1)->number, number);
  data[3] = 5;
  EXPECT_NE(of(0, 1)->number, number);
}

TEST(KeptTest, AnotherKeptObjectIsAPartOfAKey) {
  struct Pair : Counted {
    Pair(const Kept<Name>& first, int k) : name(first), number_of(k) {}
    Kept<Name> name;
    int number_of;
  };
  const auto pair = [](std::string_view name, int k) {
    return Kept<Pair>(Kept<Name>(name), k);
  };
  const Kept<Pair> one = pair("one", 1);
  EXPECT_EQ(one->name->text, "one");
  EXPECT_EQ(pair("one", 1).get(), one.get());
  EXPECT_NE(pair("two", 1).get(), one.get());
  EXPECT_NE(pair("one", 2).get(), one.get());
  for (int i = 0; i < 20; ++i) Kept<Name>(std::to_string(i));
  EXPECT_EQ(one->name->text, "one");
}

TEST(KeptTest, TheOneUsedLastStays) {
  const auto of = [](int i) { return Kept<Name>(std::to_string(i))->number; };
  std::vector<int> numbers;
  for (int i = 0; i < 8; ++i) numbers.push_back(of(i));
  EXPECT_EQ(of(0), numbers[0]);
  of(8);  // in place of 1
  EXPECT_EQ(of(0), numbers[0]);
  for (int i = 2; i < 8; ++i) EXPECT_EQ(of(i), numbers[i]);
  EXPECT_NE(of(1), numbers[1]);
}

TEST(KeptTest, BytesAreBounded) {
  struct Large : Counted {
    explicit Large(int) {}
    size_t bytes() const { return 400'000; }
  };
  const auto of = [](int i) { return Kept<Large>(i)->number; };
  const int first = of(1), second = of(2);
  EXPECT_EQ(of(1), first);
  const int third = of(3);  // in place of 2
  EXPECT_EQ(of(1), first);
  EXPECT_EQ(of(3), third);
  EXPECT_NE(of(2), second);
  const int again = of(2);
  // A key counts too: of 600 KB, with an object that is said to be as large.
  const std::string text(600'000, 'x');
  const int number = Kept<Name>(std::string_view(text))->number;
  EXPECT_EQ(Kept<Name>(std::string_view(text))->number, number);  // it is alone
  EXPECT_NE(of(2), again);
  EXPECT_NE(Kept<Name>(std::string_view(text))->number, number);
}

TEST(KeptTest, WhoHasAnObjectKeepsIt) {
  const Kept<Name> held(std::string_view("held"));
  for (int i = 0; i < 20; ++i) Kept<Name>(std::to_string(i));
  EXPECT_EQ(held->text, "held");
  EXPECT_NE(Kept<Name>(std::string_view("held")).get(), held.get());
  const int before = alive;
  for (int i = 0; i < 1000; ++i) Kept<Name>(std::to_string(i));
  EXPECT_LE(alive, before);
}

TEST(KeptTest, WhatCannotBeMadeIsAnErrorEachTime) {
  struct Failing : Counted {
    explicit Failing(int i) {
      if (i == 0) throw std::runtime_error("singular");
    }
  };
  for (int k = 0; k < 2; ++k) {
    const int before = made;
    EXPECT_THROW(Kept<Failing>(0), std::runtime_error);
    EXPECT_EQ(made, before + 1);
  }
  struct Recursive : Counted {
    explicit Recursive(int i) { Kept<Recursive> again(i); }
  };
  EXPECT_THROW(Kept<Recursive>(0), std::logic_error);
  std::atomic<int> failures{0};
  OnThreads([&](int) {
    try {
      Kept<Failing> failing(0);
    } catch (const std::runtime_error&) {
      ++failures;
    }
  });
  EXPECT_EQ(failures, kThreads);
}

// Each of these needs the next one.
struct Circular : Counted {
  explicit Circular(int i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Kept<Circular> next((i + 1) % 4);
  }
};

TEST(KeptTest, ThreadsThatNeedEachOthersObjectsDoNotHang) {
  std::atomic<int> failures{0};
  OnThreads([&](int i) {
    try {
      Kept<Circular> one(i % 4);
    } catch (const std::logic_error&) {
      ++failures;
    }
  });
  EXPECT_EQ(failures, kThreads);
}

TEST(KeptTest, ThreadsThatAskForTheSameMakeItOnce) {
  struct Slow : Counted {
    explicit Slow(int i) : value(i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    int value;
  };
  const int before = made;
  OnThreads([](int i) { EXPECT_EQ(Kept<Slow>(i % 2)->value, i % 2); });
  EXPECT_EQ(made, before + 2);
}

// Many keys for few places, while others hold what is dropped.
TEST(KeptTest, ThreadsThatDropEachOthersObjects) {
  OnThreads([](int i) {
    for (int k = 0; k < 500; ++k) {
      const std::string text(k % 3 * 1000 + (i + k) % 20, 'x');
      const Kept<Name> name{std::string_view(text)};
      EXPECT_EQ(name->text, text);
      EXPECT_LE(alive, 8 + 3 * kThreads);
    }
  });
  EXPECT_LE(alive, 8);
}

TEST(PerThreadTest, IsOneThreadsAlone) {
  struct Work : Counted {
    explicit Work(std::string_view) {}
    int64_t steps = 0;  // which TSan watches
    std::atomic<int> users{0};
  };
  const int before = made;
  std::atomic<int> most{0};
  OnThreads([&](int) {
    for (int k = 0; k < 200; ++k) {
      const PerThread<Work> work(std::string_view("model"));
      EXPECT_EQ(++work->users, 1);
      ++work->steps;
      std::this_thread::yield();
      most = std::max<int>(most, made - before);
      --work->users;
    }
  });
  EXPECT_LE(most, kThreads);
  const PerThread<Work> one(std::string_view("model"));
  EXPECT_GT(one->steps, 0);  // as another thread left it
  const PerThread<Work> two(std::string_view("model"));
  EXPECT_NE(one.get(), two.get());
}

TEST(PerThreadTest, ItsObjectsAreBoundedToo) {
  struct Large : Counted {
    explicit Large(int) {}
    size_t bytes() const { return 300'000; }
  };
  int number;
  {
    std::vector<std::unique_ptr<PerThread<Large>>> held;
    for (int i = 0; i < 4; ++i) {
      held.push_back(std::make_unique<PerThread<Large>>(1));
    }
    number = (*held[0])->number;
  }
  EXPECT_LT(PerThread<Large>(1)->number, number + 4);  // it was used last
  const int before = alive;
  Kept<Name>(std::string_view("other"));
  EXPECT_LE(alive, before - 3);
}

}  // namespace
}  // namespace xla_ffi_kit
