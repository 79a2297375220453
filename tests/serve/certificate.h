#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tensora::serve::testing {

/// A certificate of localhost and 127.0.0.1 that signs itself, in files that live as long as this.
/// Empty names: this machine has no program openssl.
class Certificate {
 public:
  Certificate() {
    static int count = 0;
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("tensora_tls_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
    const std::string certificate = folder_ / "cert.pem", secret = folder_ / "key.pem";
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "
        "/CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout " +
        secret + " -out " + certificate + " 2>/dev/null";
    if (std::system(command.c_str()) != 0) return;
    file = certificate;
    key = secret;
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;
  ~Certificate() { std::filesystem::remove_all(folder_); }

  std::string file, key;

 private:
  std::filesystem::path folder_;
};

}  // namespace tensora::serve::testing
