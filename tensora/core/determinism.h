#pragma once

namespace tensora {

/// Whether ops must give the same bits for the same inputs on the same device, even where that is
/// slower. Off at first; for the whole process. An op that cannot, throws.
bool is_deterministic();
void set_deterministic(bool deterministic);

}  // namespace tensora
