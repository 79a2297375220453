#include "tensora/ops/optim/step_list.cuh"

namespace tensora::cuda {
namespace {

bool counts_steps(const UpdateListAttrs& attrs) {
  switch (attrs.rule) {
    case UpdateRule::adagrad:
      return attrs.decay != 0;
    case UpdateRule::adamax:
    case UpdateRule::nadam:
    case UpdateRule::radam:
      return true;
    default:
      return false;
  }
}

void update_list_kernel(const KernelContext& context, const UpdateListAttrs& attrs) {
  check_recordable(context, counts_steps(attrs), attrs.layout);
  visit_rule(attrs.rule, [&]<template <class> class Rule>() { step_list<Rule>(context, attrs); });
}

}  // namespace

void register_update_list_cuda() {
  update_list_op.set_kernel(DeviceType::cuda, update_list_kernel);
}

}  // namespace tensora::cuda
