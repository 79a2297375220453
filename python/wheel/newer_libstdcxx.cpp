// Functions of libstdc++ for a wheel that GCC 8's lacks and that cannot be taken from GCC 12's
// static library, because they would bring a second terminate handler. See Note [Libraries of a
// wheel] in python/wheel/CMakeLists.txt.

#include <exception>
#include <new>
#include <stdexcept>

#define TENSORA_HIDDEN extern "C" __attribute__((visibility("hidden")))

// Copies and destructors of exception_ptr were functions of the library, and these two are parts of
// them.
using std::exception_ptr;
extern "C" void copy_exception(void* place, const exception_ptr* from) __asm__(
    "_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
extern "C" void destroy_exception(exception_ptr* from) __asm__(
    "_ZNSt15__exception_ptr13exception_ptrD1Ev");

TENSORA_HIDDEN void add_reference(exception_ptr* from) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void add_reference(exception_ptr* from) {
  alignas(exception_ptr) char
      copy[sizeof(exception_ptr)];  // never destroyed: its reference is the new one
  copy_exception(copy, from);
}

TENSORA_HIDDEN void release(exception_ptr* from) __asm__(
    "_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void release(exception_ptr* from) { destroy_exception(from); }

TENSORA_HIDDEN [[noreturn]] void throw_bad_length() __asm__("_ZSt28__throw_bad_array_new_lengthv");
void throw_bad_length() { throw std::bad_array_new_length(); }

// Moving a runtime_error is copying it: both share the text.
extern "C" void copy_error(std::runtime_error* place,
                           const std::runtime_error* from) __asm__("_ZNSt13runtime_errorC2ERKS_");
TENSORA_HIDDEN void move_error(std::runtime_error* place,
                               std::runtime_error* from) __asm__("_ZNSt13runtime_errorC2EOS_");
void move_error(std::runtime_error* place, std::runtime_error* from) { copy_error(place, from); }
