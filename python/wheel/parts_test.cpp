// Checks the replacements of functions of newer systems: tests/wheel/run.py links this program with
// them.

#define TENSORA_LIBMVEC \
  "libno-such-library.so"  // every vector function then computes element by element
#include "vector_maths.cpp"

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

int failures = 0, checked = 0;

void expect(bool right, const std::string& what) {
  ++checked;
  if (!right) std::printf("FAILED: %s\n", what.c_str()), ++failures;
}

template <class Vector, class Element>
__attribute__((always_inline)) inline void compare(const char* name, Vector (*vector)(Vector),
                                                   Element (*scalar)(Element)) {
  constexpr int lanes = sizeof(Vector) / sizeof(Element);
  Vector x{};
  for (int i = 0; i < lanes; ++i)
    x[i] = Element(1) + Element(i) / 64;  // acosh begins at 1; asin ends there
  if (std::string(name).find("sin") != std::string::npos ||
      std::string(name).find("acos") != std::string::npos ||
      std::string(name).find("atanh") != std::string::npos)
    for (int i = 0; i < lanes; ++i) x[i] -= Element(0.5);
  const Vector y = vector(x);
  bool equal = true;
  for (int i = 0; i < lanes; ++i) {
    const Element wanted = scalar(x[i]);
    equal = equal && (y[i] == wanted || (wanted != wanted && y[i] != y[i]));
  }
  expect(equal, name);
}

template <class Vector, class Element>
__attribute__((always_inline)) inline void compare(const char* name,
                                                   Vector (*vector)(Vector, Vector),
                                                   Element (*scalar)(Element, Element)) {
  constexpr int lanes = sizeof(Vector) / sizeof(Element);
  Vector x{}, other{};
  for (int i = 0; i < lanes; ++i) x[i] = Element(i) - 2, other[i] = Element(3) / (i + 1);
  const Vector y = vector(x, other);
  bool equal = true;
  for (int i = 0; i < lanes; ++i) equal = equal && y[i] == scalar(x[i], other[i]);
  expect(equal, name);
}

#define COMPARE(isa, prefix, type, lanes, function)                                          \
  __attribute__((target(isa))) void compare##prefix##_##function() {                         \
    compare<prefix##_##function##_vector, type>(#prefix "_" #function, &prefix##_##function, \
                                                &::function);                                \
  }
#define CALL(isa, prefix, type, lanes, function) \
  if (__builtin_cpu_supports(isa)) compare##prefix##_##function();
// Calls without a semicolon are indented further by each run of the formatter.
// clang-format off
#define ALL(how) \
  TENSORA_EACH_WIDTH(how, v, acos) \
  TENSORA_EACH_WIDTH(how, v, acosh) \
  TENSORA_EACH_WIDTH(how, v, asin) \
  TENSORA_EACH_WIDTH(how, v, asinh) \
  TENSORA_EACH_WIDTH(how, v, atan) \
  TENSORA_EACH_WIDTH(how, v, atanh) \
  TENSORA_EACH_WIDTH(how, v, cosh) \
  TENSORA_EACH_WIDTH(how, v, erf) \
  TENSORA_EACH_WIDTH(how, v, erfc) \
  TENSORA_EACH_WIDTH(how, v, exp2) \
  TENSORA_EACH_WIDTH(how, v, expm1) \
  TENSORA_EACH_WIDTH(how, v, log10) \
  TENSORA_EACH_WIDTH(how, v, log1p) \
  TENSORA_EACH_WIDTH(how, v, log2) \
  TENSORA_EACH_WIDTH(how, v, sinh) \
  TENSORA_EACH_WIDTH(how, v, tan) \
  TENSORA_EACH_WIDTH(how, v, tanh) \
  TENSORA_EACH_WIDTH(how, vv, atan2) \
  TENSORA_EACH_WIDTH(how, vv, hypot)
// clang-format on
ALL(COMPARE)

void check_waiting() {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable ready;
  std::unique_lock lock(mutex);
  auto begin = Clock::now();
  expect(ready.wait_for(lock, std::chrono::milliseconds(30)) == std::cv_status::timeout,
         "a wait ends");
  const auto passed = Clock::now() - begin;
  expect(passed >= std::chrono::milliseconds(29) && passed < std::chrono::seconds(20),
         "a wait takes its time");
  bool said = false;
  std::thread other([&] {
    const std::lock_guard held(mutex);
    said = true;
    ready.notify_one();
  });
  expect(ready.wait_for(lock, std::chrono::minutes(5), [&] { return said; }), "a wait is woken");
  lock.unlock();
  other.join();
}

struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  ~Counted() { --alive; }
};

void check_exceptions() {
  {
    std::exception_ptr first;
    try {
      throw Counted();
    } catch (...) {
      first = std::current_exception();
    }
    std::exception_ptr second = first, third = std::move(first);
    first = second;
    expect(Counted::alive == 1 && first == third, "copies of an exception_ptr share the exception");
  }
  expect(Counted::alive == 0, "the last exception_ptr destroys the exception");
  std::runtime_error error("text"), moved(std::move(error));
  expect(std::string(moved.what()) == "text", "a runtime_error moves");
  volatile long size = -1;
  try {
    delete[] new int[static_cast<size_t>(size)];
    expect(false, "a negative length throws");
  } catch (const std::bad_array_new_length&) {
    ++checked;
  }
}

Counted before_main;

}  // namespace

int main(int count, char** arguments) {
  expect(Counted::alive == 1, "constructors run once before main");
  check_waiting();
  {
    const int before = Counted::alive;
    Counted::alive = 0;
    check_exceptions();
    Counted::alive = before;
  }
  struct stat found;
  expect(count == 1 && stat(arguments[0], &found) == 0 && S_ISREG(found.st_mode) &&
             found.st_size > 1000,
         "stat");
  expect(stat("/no/such/file", &found) == -1, "stat of a missing file");
  ALL(CALL)
  std::printf("%d checks, %d failed\n", checked, failures);
  return failures || checked < 50;
}
