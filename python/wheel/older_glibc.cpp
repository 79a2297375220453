// Functions of glibc for a wheel. See Note [Libraries of a wheel] in python/wheel/CMakeLists.txt.
//
// The linker binds a call to the newest version of a function, and so to the glibc that last
// changed or moved it. What glibc had before, under an older version, does the same for our calls.
// The functions below have the names that our objects call; each jumps to the older version.

#include <pthread.h>
#include <time.h>

struct stat;

#define TENSORA_OLDER(function, version)              \
  __asm__(".pushsection .text." #function             \
          ",\"ax\",@progbits\n"                       \
          ".globl " #function "\n.hidden " #function  \
          "\n"                                        \
          ".type " #function ",@function\n" #function \
          ":\n"                                       \
          "jmp *older_" #function                     \
          "@GOTPCREL(%rip)\n"                         \
          ".size " #function ", .-" #function         \
          "\n.popsection\n"                           \
          ".symver older_" #function "," #function "@GLIBC_" version "\n");

// Since 2.29, or hypot since 2.35, these no longer call matherr().
TENSORA_OLDER(exp, "2.2.5")
TENSORA_OLDER(exp2, "2.2.5")
TENSORA_OLDER(hypot, "2.2.5")
TENSORA_OLDER(hypotf, "2.2.5")
TENSORA_OLDER(log, "2.2.5")
TENSORA_OLDER(log2, "2.2.5")
TENSORA_OLDER(pow, "2.2.5")
// libdl, libpthread and librt became parts of libc from 2.30 to 2.34. A wheel's binaries name the
// three as well: before, they hold these functions.
TENSORA_OLDER(dladdr, "2.2.5")
TENSORA_OLDER(dlclose, "2.2.5")
TENSORA_OLDER(dlerror, "2.2.5")
TENSORA_OLDER(dlinfo, "2.3.3")
TENSORA_OLDER(dlopen, "2.2.5")
TENSORA_OLDER(dlsym, "2.2.5")
TENSORA_OLDER(pthread_condattr_setclock, "2.3.3")
TENSORA_OLDER(pthread_create, "2.2.5")
TENSORA_OLDER(pthread_detach, "2.2.5")
TENSORA_OLDER(pthread_getspecific, "2.2.5")
TENSORA_OLDER(pthread_join, "2.2.5")
TENSORA_OLDER(pthread_key_create, "2.2.5")
TENSORA_OLDER(pthread_key_delete, "2.2.5")
TENSORA_OLDER(pthread_mutex_trylock, "2.2.5")
TENSORA_OLDER(pthread_once, "2.2.5")
TENSORA_OLDER(pthread_rwlock_destroy, "2.2.5")
TENSORA_OLDER(pthread_rwlock_init, "2.2.5")
TENSORA_OLDER(pthread_rwlock_rdlock, "2.2.5")
TENSORA_OLDER(pthread_rwlock_unlock, "2.2.5")
TENSORA_OLDER(pthread_rwlock_wrlock, "2.2.5")
TENSORA_OLDER(pthread_setname_np, "2.12")
TENSORA_OLDER(pthread_setspecific, "2.2.5")
TENSORA_OLDER(pthread_sigmask, "2.2.5")
TENSORA_OLDER(shm_open, "2.2.5")
TENSORA_OLDER(shm_unlink, "2.2.5")

#define TENSORA_HIDDEN extern "C" __attribute__((visibility("hidden")))

// Before 2.33 these were inline functions, which state the layout of the struct.
extern "C" int __xstat(int layout, const char* path, struct stat* out) noexcept;
extern "C" int __fxstat(int layout, int file, struct stat* out) noexcept;
extern "C" int __lxstat(int layout, const char* path, struct stat* out) noexcept;
TENSORA_HIDDEN int stat(const char* path, struct stat* out) noexcept {
  return __xstat(1, path, out);
}
TENSORA_HIDDEN int fstat(int file, struct stat* out) noexcept { return __fxstat(1, file, out); }
TENSORA_HIDDEN int lstat(const char* path, struct stat* out) noexcept {
  return __lxstat(1, path, out);
}

// Since 2.32 it tells shared_ptr whether it can do without atomic counters; with 0 they are always
// atomic.
TENSORA_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

// New in 2.30. A condition variable waits by the system's time unless its attributes say otherwise,
// and those of std::condition_variable do not: the deadline is moved to that clock.
TENSORA_HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                          clockid_t clock, const timespec* deadline) {
  constexpr long second = 1'000'000'000;
  timespec now, system;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &system);
  system.tv_sec += deadline->tv_sec - now.tv_sec;
  system.tv_nsec += deadline->tv_nsec - now.tv_nsec;
  if (system.tv_nsec < 0) system.tv_nsec += second, --system.tv_sec;
  if (system.tv_nsec >= second) system.tv_nsec -= second, ++system.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &system);
}
