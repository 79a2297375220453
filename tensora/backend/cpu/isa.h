#pragma once

namespace tensora::cpu {

/// The instruction sets that hot kernels are compiled for, weakest first.
enum class Isa { baseline, avx2, avx512 };

/// The best one that this processor, its operating system and this build support. The environment
/// variable TENSORA_ISA (baseline, avx2 or avx512) can only lower it. Decided once.
Isa cpu_isa();

const char* name(Isa isa);

/// Whether the instruction set in force is avx512 and the processor multiplies pairs of bfloat16.
bool multiplies_bf16();

}  // namespace tensora::cpu
