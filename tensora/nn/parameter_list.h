#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// A list of parameters; their names are "0", "1", …. It has no forward.
class ParameterList : public Layer<ParameterList> {
 public:
  ParameterList() = default;
  ParameterList(std::initializer_list<Tensor> tensors);

  void push_back(const Tensor& data);
  size_t size() const { return parameter_list().size(); }
  bool is_empty() const { return size() == 0; }
  const Tensor& operator[](size_t index) const;
  std::string to_string() const override;
};

/// Parameters by name, in the order of insertion. It has no forward.
class ParameterDict : public Layer<ParameterDict> {
 public:
  ParameterDict() = default;
  ParameterDict(std::initializer_list<std::pair<std::string, Tensor>> tensors);

  void insert(const std::string& name, const Tensor& data) { register_parameter(name, data); }
  bool contains(std::string_view name) const;
  size_t size() const { return parameter_list().size(); }
  std::vector<std::string> keys() const;
  Tensor operator[](std::string_view name) const { return get_parameter(name); }
  std::string to_string() const override;
};

}  // namespace tensora::nn
