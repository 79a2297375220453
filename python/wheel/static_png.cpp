// stderr for libpng's static library. See Note [Libraries of a wheel] in
// python/wheel/CMakeLists.txt.
//
// libpng.a is compiled for programs, and reads the address of stderr as one of its own binary. This
// variable, which libtensora.so alone sees, holds the C library's.

struct _IO_FILE;
extern "C" {
extern _IO_FILE* library_stderr;
__asm__(".symver library_stderr, stderr@GLIBC_2.2.5");
__attribute__((visibility("hidden"))) extern _IO_FILE* stderr;
_IO_FILE* stderr = nullptr;
}

namespace {
__attribute__((constructor(101))) void take_stderr() { stderr = library_stderr; }
}  // namespace
