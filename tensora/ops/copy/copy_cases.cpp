#include <cmath>

#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

ArrayList same(Arrays x) { return {x[0]}; }

const Shape kShapes[] = {{}, {5}, {3, 4}, {2, 3, 4}, {0, 3}, {1, 7, 1}, {2, 1, 3, 2}};

void add_copies(Cases& cases) {
  for (const Shape& sizes : kShapes) {
    cases.add({.op = "clone",
               .name = to_string(sizes),
               .inputs = {{sizes}},
               .run = [](In x) { return one(clone(x[0])); },
               .reference = same,
               .dtypes = element_dtypes()});
    cases.add({.op = "contiguous",
               .name = to_string(sizes),
               .inputs = {{sizes}},
               .run = [](In x) { return one(contiguous(x[0])); },
               .reference = same,
               .dtypes = element_dtypes()});
  }
  cases.add({.op = "clone",
             .name = "large",
             .inputs = {{{1 << 22}}},
             .run = [](In x) { return one(clone(x[0])); },
             .dtypes = {kFloat32},
             .big = true});
}

void add_copy_into(Cases& cases) {
  struct Sample {
    const char* name;
    Shape target, source;
  };
  const Sample samples[] = {
      {"same shape", {3, 4}, {3, 4}},  {"row", {3, 4}, {4}}, {"column", {3, 4}, {3, 1}},
      {"scalar", {2, 3}, {}},          {"0-dim", {}, {}},    {"empty", {0, 3}, {0, 3}},
      {"4-D", {2, 3, 1, 4}, {3, 1, 1}}};
  for (const Sample& sample : samples) {
    cases.add({.op = "copy",
               .name = sample.name,
               .inputs = {{sample.target}, {sample.source}},
               .run =
                   [](In x) {
                     return one(apply(copy_op, {x[0], x[1]}));
                   },
               .reference = [](Arrays x) { return one(x[1].broadcast_to(x[0].sizes)); },
               .dtypes = element_dtypes(),
               .inplace = [](In x) { copy_(x[0], x[1]); }});
    cases.add({.op = "copy",
               .name = concat(sample.name, " from float32"),
               .inputs = {{sample.target}, {.sizes = sample.source, .low = 0, .dtype = kFloat32}},
               .run =
                   [](In x) {
                     return one(apply(copy_op, {x[0], x[1]}));
                   },
               .reference = [](Arrays x) { return one(x[1].broadcast_to(x[0].sizes)); },
               .dtypes = element_dtypes(),
               .inplace = [](In x) { copy_(x[0], x[1]); },
               .grad_inputs = {{0}}});
  }
  cases.error("copy", "source does not fit", "cannot be broadcast", [] {
    copy_(zeros({2, 3}), zeros({2}));
  });
  cases.error("copy", "source too large", "cannot be broadcast", [] {
    copy_(zeros({3}), zeros({2, 3}));
  });
  cases.error("copy", "into an expanded tensor", "share one memory location",
              [] { copy_(as_strided(zeros({1}), {3}, {0}), zeros({3})); });
}

void add_casts(Cases& cases) {
  for (DType target : element_dtypes()) {
    for (const Shape& sizes : {Shape{3, 5}, Shape{}, Shape{0}}) {
      cases.add({.op = "cast",
                 .name = concat("to ", target, " ", sizes),
                 .inputs = {{.sizes = sizes, .low = target == kUInt8 ? 0.0 : -3.0}},
                 .run = [target](In x) { return one(to(x[0], target)); },
                 .reference = same,
                 .dtypes = element_dtypes(),
                 .output_dtype = [target](DType) { return target; },
                 .opt_out = target != kFloat64
                                ? std::map<Mode, std::string>{{Mode::grad, "rounding has steps"}}
                                : std::map<Mode, std::string>{}});
    }
  }
  cases.add({.op = "cast",
             .name = "values at the edges",
             .inputs = {{.sizes = {8},
                         .values = {0, -0.0, 65504, 65536, -1e30, HUGE_VAL, -HUGE_VAL, NAN}}},
             .run = [](In x) { return one(to(x[0], kFloat16)); },
             .reference = same,
             .output_dtype = [](DType) { return kFloat16; },
             .opt_out = {{Mode::grad, "not finite"}}});
  cases.add({.op = "type_as",
             .name = "another dtype",
             .inputs = {{{3, 2}}, {.sizes = {1}, .dtype = kFloat64}},
             .run = [](In x) { return one(type_as(x[0], x[1])); },
             .reference = same,
             .dtypes = element_dtypes(),
             .output_dtype = [](DType) { return kFloat64; }});
}

void add_transfers(Cases& cases) {
  for (const Shape& sizes : kShapes) {
    cases.add({.op = "to_device",
               .name = concat("to the same kind of device ", sizes),
               .inputs = {{sizes}},
               .run =
                   [](In x) {
                     const Tensor dense = contiguous(x[0]);
                     return one(apply(to_device_op, {dense}, {dense.device()}));
                   },
               .reference = same,
               .dtypes = element_dtypes()});
  }
  cases.error("to", "data of a meta tensor", "a meta tensor has no data",
              [] { zeros({2}, {.device = "meta"}).cpu(); });
  cases.error("to", "no such CPU", "device", [] { zeros({2}).to(Device("cpu:7")); });
  cases.error("to", "no such device", "toaster", [] { zeros({2}).to(Device("toaster")); });
}

}  // namespace

void copy_cases(Cases& cases) {
  add_copies(cases);
  add_copy_into(cases);
  add_casts(cases);
  add_transfers(cases);
}

}  // namespace tensora::suite
