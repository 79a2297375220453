#pragma once

#include "../program.h"
#include "raw_client.h"

namespace tensora::serve::testing {

/// The port that `tensora serve` printed when it was ready; 0: it did not become so.
inline int port_of(const tensora::testing::Program& program) {
  int port = 0;
  eventually(
      [&] {
        const std::string out = program.out();
        const size_t at = out.find("http://127.0.0.1:");
        if (at == std::string::npos || out.find('\n') == std::string::npos) return program.ended();
        port = std::stoi(out.substr(at + 17));
        return true;
      },
      300);  // a loaded machine takes long to load a model
  return port;
}

}  // namespace tensora::serve::testing
