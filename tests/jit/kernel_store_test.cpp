// The store of compiled kernels: keys, damage, limits, and many processes at once.
#include "tensora/jit/kernel_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/helpers.h"
#include "tests/temporary_folder.h"

namespace tensora::test {
namespace {

namespace fs = std::filesystem;
using jit::KernelSource;
using jit::KernelStore;
using jit::StoredKernel;
using ::tensora::testing::TemporaryFolder;

KernelSource source() {
  return {
      .text = "kernel", .architecture = "sm_90", .compiler = "NVRTC 13.0", .options = {"-a", "-b"}};
}
std::string key(int number) {
  KernelSource other = source();
  other.text += std::to_string(number);
  return key_of(other);
}
StoredKernel kernel(int number, size_t bytes = 1000) {
  return {.code = std::string(bytes, static_cast<char>(number)),
          .text = "text " + std::to_string(number),
          .description = "sm_90",
          .compile_microseconds = 7};
}
fs::path file_of(const fs::path& folder, const std::string& key) {
  return folder / key.substr(0, 2) / (key + ".tk");
}

TEST(KernelStore, KeysDependOnEveryIngredient) {
  std::set<std::string> keys = {key_of(source())};
  const auto differs = [&](auto change) {
    KernelSource other = source();
    change(other);
    EXPECT_TRUE(keys.insert(key_of(other)).second);
  };
  differs([](KernelSource& s) { s.text += " "; });
  differs([](KernelSource& s) { s.architecture = "sm_90a"; });
  differs([](KernelSource& s) { s.compiler = "NVRTC 13.1"; });
  differs([](KernelSource& s) { s.options.pop_back(); });
  differs([](KernelSource& s) { s.options = {"-b", "-a"}; });
  differs([](KernelSource& s) { s.options = {"-a-b"}; });
  // The same bytes in other parts.
  differs([](KernelSource& s) { s.text = "kernels", s.architecture = "m_90"; });
  EXPECT_EQ(key_of(source()), key_of(source()));
}

TEST(KernelStore, KeepsAndFinds) {
  const TemporaryFolder folder;
  KernelStore store({.folder = fs::path(folder.path()) / "deep/kernels"});
  ASSERT_EQ(store.refusal(), "");
  EXPECT_FALSE(store.find(key(1)));
  ASSERT_TRUE(store.put(key(1), kernel(1)));
  KernelStore again({.folder = fs::path(folder.path()) / "deep/kernels"});  // as another process
  const auto found = again.find(key(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, kernel(1).code);
  EXPECT_EQ(found->text, "text 1");
  EXPECT_EQ(found->compile_microseconds, 7u);
  EXPECT_EQ(again.list().size(), 1u);
  struct stat status {};
  ASSERT_EQ(::stat((fs::path(folder.path()) / "deep/kernels").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  EXPECT_EQ(again.clear(), 1u);
  EXPECT_FALSE(again.find(key(1)));
}

TEST(KernelStore, DamageIsCountedAndReplaced) {
  const TemporaryFolder folder;
  KernelStore store({.folder = fs::path(folder.path()) / "k"});
  ASSERT_TRUE(store.put(key(1), kernel(1)));
  const fs::path path = file_of(fs::path(folder.path()) / "k", key(1));
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const auto refuses = [&](const std::string& bytes, const std::string& what) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const uint64_t before = jit::kernel_statistics().damaged;
    EXPECT_FALSE(store.find(key(1))) << what;
    EXPECT_EQ(jit::kernel_statistics().damaged, before + 1) << what;
  };
  refuses("", "empty");
  for (size_t size : {size_t{1}, size_t{20}, size_t{90}, whole.size() / 2, whole.size() - 1})
    refuses(whole.substr(0, size), "truncated");
  refuses(whole + "x", "longer");
  for (size_t at = 0; at < whole.size(); at += 37) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    refuses(changed, concat("byte ", at));
  }
  std::string newer = whole;
  newer.replace(newer.find('1'), 1, "2");
  refuses(newer, "newer format");
  ASSERT_TRUE(store.put(key(2), kernel(2)));
  std::ifstream foreign(file_of(fs::path(folder.path()) / "k", key(2)), std::ios::binary);
  refuses(std::string((std::istreambuf_iterator<char>(foreign)), {}), "another key");
  EXPECT_EQ(store.verify(), std::vector<std::string>{key(1)});
  ASSERT_TRUE(store.put(key(1), kernel(1)));
  EXPECT_TRUE(store.find(key(1)));
  EXPECT_TRUE(store.verify().empty());
}

TEST(KernelStore, FoldersOfOthersAreRefused) {
  const TemporaryFolder folder;
  fs::create_directory(fs::path(folder.path()) / "open");
  fs::permissions(fs::path(folder.path()) / "open", fs::perms::all);
  KernelStore store({.folder = fs::path(folder.path()) / "open"});
  EXPECT_NE(store.refusal().find("others may write"), std::string::npos);
  EXPECT_FALSE(store.put(key(1), kernel(1)));
  EXPECT_FALSE(store.find(key(1)));
  std::ofstream(fs::path(folder.path()) / "file") << "x";
  EXPECT_NE(KernelStore({.folder = fs::path(folder.path()) / "file"}).refusal(), "");
  EXPECT_NE(KernelStore({.folder = ""}).refusal(), "");
}

TEST(KernelStore, NothingIsWrittenWhereItCannotBe) {
  // A device without space: what is written there is lost.
  KernelStore store({.folder = "/dev/full/kernels"});
  EXPECT_NE(store.refusal(), "");
  EXPECT_FALSE(store.put(key(1), kernel(1)));
  if (::geteuid() == 0) return;  // root writes everywhere
  const TemporaryFolder folder;
  KernelStore own({.folder = fs::path(folder.path()) / "k"});
  fs::permissions(fs::path(folder.path()) / "k", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(own.put(key(1), kernel(1)));
  fs::permissions(fs::path(folder.path()) / "k", fs::perms::owner_all);
}

TEST(KernelStore, LooksIntoASharedFolder) {
  const TemporaryFolder folder;
  KernelStore shipped({.folder = fs::path(folder.path()) / "shipped"});
  ASSERT_TRUE(shipped.put(key(1), kernel(1)));
  KernelStore store(
      {.folder = fs::path(folder.path()) / "own", .shared = fs::path(folder.path()) / "shipped"});
  EXPECT_TRUE(store.find(key(1)));
  EXPECT_TRUE(store.list().empty());
  ASSERT_TRUE(store.put(key(2), kernel(2)));
  EXPECT_EQ(shipped.list().size(), 1u);
}

TEST(KernelStore, TheLeastRecentlyUsedGoFirst) {
  const TemporaryFolder folder;
  KernelStore store({.folder = fs::path(folder.path()) / "k", .limit = 4200});
  const auto age = [&](int number, int hours) {
    const fs::path path = file_of(fs::path(folder.path()) / "k", key(number));
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(store.put(key(i), kernel(i)));
    age(i, 10 - i);
  }
  EXPECT_TRUE(store.find(key(1)));  // now the most recent
  ASSERT_TRUE(store.put(key(4), kernel(4)));
  EXPECT_TRUE(store.find(key(1)));
  EXPECT_FALSE(store.find(key(2)));
  EXPECT_TRUE(store.find(key(4)));
  EXPECT_FALSE(store.put(key(5), kernel(5, 10'000)));  // larger than the store
}

// What a process may do that is killed at any moment.
[[noreturn]] void write_for_ever(const fs::path& folder, int seed) {
  KernelStore store({.folder = folder});
  for (int i = seed;; ++i) {
    const int number = i % 5;
    const auto found = store.find(key(number));
    if (found && found->code != kernel(number, 50'000).code) ::_exit(3);
    store.put(key(number), kernel(number, 50'000));
  }
}

TEST(KernelStore, SixtyFourProcessesOnOneKeySomeKilled) {
  const TemporaryFolder folder;
  const fs::path path = fs::path(folder.path()) / "k";
  std::vector<pid_t> children;
  for (int i = 0; i < 64; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (i % 4 == 0) write_for_ever(path, i);
      KernelStore store({.folder = path});
      for (int k = 0; k < 5; ++k) {
        const auto found = store.find(key(0));
        if (found && found->code != kernel(0, 50'000).code) ::_exit(3);
        if (!found && !store.put(key(0), kernel(0, 50'000))) ::_exit(4);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  ::usleep(100'000);
  for (size_t i = 0; i < children.size(); i += 4) {
    ::usleep(static_cast<useconds_t>(1000 * (i % 7)));
    ::kill(children[i], SIGKILL);
  }
  for (size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
    if (i % 4 == 0)
      EXPECT_TRUE(WIFSIGNALED(status)) << i;  // not 3: no half-written entry was read
    else
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << i << ": " << status;
  }
  KernelStore store({.folder = path});
  const auto found = store.find(key(0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, kernel(0, 50'000).code);
  EXPECT_TRUE(store.verify().empty());
}

}  // namespace
}  // namespace tensora::test
