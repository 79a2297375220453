// The start of a wheel's program. See Note [Libraries of a wheel] in python/wheel/CMakeLists.txt.
//
// From glibc 2.34 on, __libc_start_main calls a program's constructors itself; before, it called a
// function that was linked into every program. The older version of __libc_start_main takes such a
// function everywhere.

using Initializer = void (*)(int, char**, char**);
using Program = int (*)(int, char**, char**);

extern "C" {
extern const Initializer __preinit_array_start[] __attribute__((visibility("hidden")));
extern const Initializer __preinit_array_end[] __attribute__((visibility("hidden")));
extern const Initializer __init_array_start[] __attribute__((visibility("hidden")));
extern const Initializer __init_array_end[] __attribute__((visibility("hidden")));
void _init() __attribute__((visibility("hidden")));
int older_start(Program program, int count, char** arguments, Initializer start, void (*end)(),
                void (*loader_end)(), void* stack_end);
__asm__(".symver older_start, __libc_start_main@GLIBC_2.2.5");

static void run_constructors(int count, char** arguments, char** environment) {
  for (const Initializer* f = __preinit_array_start; f != __preinit_array_end; ++f)
    (*f)(count, arguments, environment);
  _init();
  for (const Initializer* f = __init_array_start; f != __init_array_end; ++f)
    (*f)(count, arguments, environment);
}

// Destructors run when the program exits: the loader calls them.
__attribute__((visibility("hidden"))) int __libc_start_main(Program program, int count,
                                                            char** arguments, Initializer,
                                                            void (*end)(), void (*loader_end)(),
                                                            void* stack_end) {
  return older_start(program, count, arguments, run_constructors, end, loader_end, stack_end);
}
}
