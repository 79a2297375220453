// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/optim/list_step.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void update_list_kernel(const KernelContext& context, const UpdateListAttrs& attrs) {
  visit_rule(attrs.rule, [&]<template <class> class Rule>() { step_list<Rule>(context, attrs); });
}

}  // namespace

void register_update_list_cpu() { update_list_op.set_kernel(DeviceType::cpu, update_list_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
