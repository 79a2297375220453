#pragma once

namespace tensora::cpu {

/// The instruction sets that hot kernels are compiled for, weakest first.
enum class Isa { baseline, avx2, avx512 };

/// The best one that this processor, its operating system and this build support. The environment
/// variable TENSORA_ISA (baseline, avx2 or avx512) can only lower it. Decided once.
Isa cpu_isa();

const char* name(Isa isa);

/// Whether the instruction set in use is avx512 and the processor has its BF16 extension.
bool multiplies_bf16();

/// Whether the instruction set in use is avx512 and the processor has its VNNI extension.
bool multiplies_bytes();

/// Whether multiplies_bf16() and the processor has AMX for bfloat16, and the operating system
/// lets this process use it.
bool multiplies_tiles();

}  // namespace tensora::cpu
