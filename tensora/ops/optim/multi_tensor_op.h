#pragma once

// Internal header: the ops that step over, or measure, a whole list of tensors at once.

#include <array>
#include <span>

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// What a step over `count` parameters reads, in this order: the parameters; `states` lists of as
/// many tensors; float32 copies of the parameters, the master weights, where `masters`; the
/// gradients; and, where the attributes say so, the number of the step, the factor by which the
/// gradients were scaled, whether one of them was infinite and a factor that the steps have in
/// common, one float32 number each, and the learning rate, one float64 number. All but the
/// gradients and these five are written.
struct ListLayout {
  int64_t count = 0;
  int states = 0;
  bool masters = false, counted = false, scaled = false, guarded = false, carried = false,
       rated = false;

  int64_t outputs() const { return count * (1 + states + masters); }
  size_t param(int64_t i) const { return static_cast<size_t>(i); }
  size_t state(int k, int64_t i) const { return static_cast<size_t>((1 + k) * count + i); }
  size_t master(int64_t i) const { return static_cast<size_t>((1 + states) * count + i); }
  size_t grad(int64_t i) const { return static_cast<size_t>(outputs() + i); }
  size_t step() const { return static_cast<size_t>(outputs() + count); }
  size_t scale() const { return step() + counted; }
  size_t found_inf() const { return scale() + scaled; }
  size_t product() const { return found_inf() + guarded; }
  size_t rate() const { return product() + carried; }
  size_t inputs() const { return rate() + rated; }
};

struct AdamListAttrs {
  ListLayout layout;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // counted from 1; unused where the step is a tensor
  bool decoupled = false, amsgrad = false, maximize = false;
};
constexpr auto describe_layout(auto outer, auto... rest) {
  using L = ListLayout;
  const auto nested = [=](auto listed) {
    return NestedField<decltype(outer), decltype(listed)>{listed.name, outer, listed};
  };
  return fields(nested(field("count", &L::count)), nested(field("states", &L::states)),
                nested(field("masters", &L::masters)), nested(field("counted", &L::counted)),
                nested(field("scaled", &L::scaled)), nested(field("guarded", &L::guarded)),
                nested(field("carried", &L::carried)), nested(field("rated", &L::rated)), rest...);
}
constexpr auto describe(std::type_identity<AdamListAttrs>) {
  using A = AdamListAttrs;
  return describe_layout(&A::layout, field("lr", &A::lr), field("beta1", &A::beta1),
                         field("beta2", &A::beta2), field("eps", &A::eps),
                         field("weight_decay", &A::weight_decay), field("step", &A::step),
                         field("decoupled", &A::decoupled), field("amsgrad", &A::amsgrad),
                         field("maximize", &A::maximize));
}
struct SgdListAttrs {
  ListLayout layout;
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false, first = false;
};
constexpr auto describe(std::type_identity<SgdListAttrs>) {
  using A = SgdListAttrs;
  return describe_layout(&A::layout, field("lr", &A::lr), field("momentum", &A::momentum),
                         field("dampening", &A::dampening), field("weight_decay", &A::weight_decay),
                         field("nesterov", &A::nesterov), field("maximize", &A::maximize),
                         field("first", &A::first));
}
enum class UpdateRule { rmsprop, adagrad, adadelta, adamax, nadam, radam, lion };
constexpr std::array<std::string_view, 7> names_of(std::type_identity<UpdateRule>) {
  return {"rmsprop", "adagrad", "adadelta", "adamax", "nadam", "radam", "lion"};
}
/// The options of all rules; each uses some of them.
struct UpdateListAttrs {
  ListLayout layout;
  UpdateRule rule = UpdateRule::rmsprop;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double momentum = 0;  // of rmsprop
  double decay = 0;     // of the learning rate (adagrad) or of the momentum (nadam)
  double product = 1;   // of all momenta (nadam), unless it is a tensor
  int64_t step = 1;     // counted from 1; unused where the step is a tensor
  bool centered = false, decoupled = false, maximize = false;
};
constexpr auto describe(std::type_identity<UpdateListAttrs>) {
  using A = UpdateListAttrs;
  return describe_layout(
      &A::layout, field("rule", &A::rule), field("lr", &A::lr), field("beta1", &A::beta1),
      field("beta2", &A::beta2), field("eps", &A::eps), field("weight_decay", &A::weight_decay),
      field("momentum", &A::momentum), field("decay", &A::decay), field("product", &A::product),
      field("step", &A::step), field("centered", &A::centered), field("decoupled", &A::decoupled),
      field("maximize", &A::maximize));
}
extern OpDef<AdamListAttrs> adam_list_op;
extern OpDef<SgdListAttrs> sgd_list_op;
extern OpDef<UpdateListAttrs> update_list_op;

/// The tensors of a step. Gradients that are laid out otherwise than their parameters are copied.
/// What is optional may be empty or undefined.
struct ListStep {
  std::string_view op;  // the name that errors give
  std::span<const Tensor> params, grads;
  std::span<const std::span<const Tensor>> states;
  std::span<const char* const> state_names;
  std::span<const Tensor> masters;
  const Tensor *step, *grad_scale, *found_inf, *product, *lr;
};
/// Runs the step in place; the layout in the attributes is filled in.
void run_step(const ListStep& step, AdamListAttrs attrs);
void run_step(const ListStep& step, SgdListAttrs attrs);
void run_step(const ListStep& step, UpdateListAttrs attrs);

/// The shape rule of all steps.
void infer_list(Infer& infer, const ListLayout& layout);

/// (tensors...) -> the p-norm of all their elements, float32, or float64 if one of them is.
struct ListNormAttrs {
  double p = 2;
};
constexpr auto describe(std::type_identity<ListNormAttrs>) {
  return fields(field("p", &ListNormAttrs::p));
}
extern OpDef<ListNormAttrs> list_norm_op;

/// (tensors..., total_norm): the tensors, scaled down so that their norm is at most `limit`; or,
/// without a norm, each element kept within ±limit.
struct ListClipAttrs {
  double limit = 1;
  bool by_norm = true;
};
constexpr auto describe(std::type_identity<ListClipAttrs>) {
  using A = ListClipAttrs;
  return fields(field("limit", &A::limit), field("by_norm", &A::by_norm));
}
extern OpDef<ListClipAttrs> list_clip_op;

}  // namespace tensora
