#include "tensora/io/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "files.h"
#include "tensora/io/checksum.h"

namespace tensora::testing {
namespace {

/// No file of this process can grow beyond this size while it lives: what a full disk looks like.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AtomicFile, a_full_disk_leaves_the_old_file) {
  const Tensor small = ones({10}), large = ones({1000000});
  for (const char* name : {"x.pt", "x.safetensors", "x.npz", "x.npy"}) {
    const TemporaryFolder folder;
    const std::string path = folder / name;
    const bool plain = path.ends_with("npy");
    const auto value = [&](const Tensor& x) {
      return plain ? Value(x) : Value(StateDict{{"x", x}});
    };
    io::save(value(small), path);
    const std::string before = read_file(path);
    std::string error;
    {
      const FileSizeLimit limit(100000);
      error = error_of([&] { io::save(value(large), path); });
    }
    EXPECT_TRUE(contains(error, "could not be written: File too large")) << error;
    EXPECT_EQ(read_file(path), before) << name;
    EXPECT_EQ(folder.names(), std::vector<std::string>{name});
  }
}

TEST(AtomicFile, a_full_disk_loses_no_checkpoint) {
  const TemporaryFolder folder;
  for (bool background : {false, true}) {
    io::CheckpointManager manager(folder.path(), {.keep_last = 1, .background = background});
    manager.save(1, ones({10}));
    manager.wait();
    const std::string error = [&] {
      const FileSizeLimit limit(100000);
      return error_of([&] {
        manager.save(2, ones({1000000}));
        manager.wait();
      });
    }();
    EXPECT_TRUE(contains(error, "could not be written")) << error;
    EXPECT_EQ(manager.latest()->step, 1);
    EXPECT_EQ(folder.names().size(), 1u);
  }
}

TEST(AtomicFile, nothing_is_left_of_a_file_that_is_not_committed) {
  const TemporaryFolder folder;
  {
    io::AtomicFile file(folder / "x");
    file.write("something");
    EXPECT_EQ(file.position(), 9u);
    EXPECT_EQ(folder.names().size(), 1u);
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, permissions_and_links_stay) {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  chmod((folder / "real").c_str(), 0640);
  std::filesystem::create_symlink("real", folder / "link");
  io::AtomicFile file(folder / "link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real"), "new");
  struct stat status {};
  stat((folder / "real").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

// Renaming a file over /dev/null would take it away from the whole machine.
TEST(AtomicFile, a_pipe_is_written_to_and_stays) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  std::string received;
  std::thread reader([&] { received = read_file(folder / "pipe"); });
  {
    io::AtomicFile file(folder / "link");
    file.write("what a reader gets");
    file.commit();
  }
  reader.join();
  EXPECT_EQ(received, "what a reader gets");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(AtomicFile, places_that_cannot_be_written) {
  const TemporaryFolder folder;
  const auto error = [](const std::string& path) { return error_of([&] { io::save(1, path); }); };
  EXPECT_TRUE(contains(error(folder / "none/x.pt"), "No such file or directory"));
  std::filesystem::create_directory(folder / "folder.pt");
  EXPECT_TRUE(contains(error(folder / "folder.pt"), "is a folder"));
  EXPECT_TRUE(contains(error("/proc/x.pt"), "could not be created"));
}

TEST(Checksum, is_that_of_zip) {
  EXPECT_EQ(io::crc32(io::bytes_of_text("123456789")), 0xcbf43926u);
  EXPECT_EQ(io::crc32({}), 0u);
  const std::string text(1000, 'x');
  for (size_t cut : {0, 1, 15, 16, 17, 999}) {
    const uint32_t first = io::crc32(io::bytes_of_text(text.substr(0, cut)));
    EXPECT_EQ(io::crc32(io::bytes_of_text(text.substr(cut)), first),
              io::crc32(io::bytes_of_text(text)));
  }
}

}  // namespace
}  // namespace tensora::testing
