#pragma once

#include <string>

namespace tensora::train {

/// Holds the lock of a run's folder, FOLDER/.lock, so that two processes cannot train there at the
/// same time. The system releases it when the process ends, however it ends.
class RunLock {
 public:
  /// Creates the folder if needed. Throws if another process, or another RunLock, holds the lock.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// False where the file system has no locks.
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = true;
};

}  // namespace tensora::train
