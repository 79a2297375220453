// Prints tensors that it is told about, for print_oracle.py to compare with PyTorch.
//
// Input, one tensor after another: precision threshold edgeitems linewidth sci(-1, 0, 1) dtype
// requires_grad dims sizes… values…, all separated by white space. Output: each tensor's text,
// followed by a line with a form feed.

#include <iostream>

#include "tensora/tensora.h"

int main() {
  using namespace tensora;
  PrintOptions options;
  int sci = -1;
  while (std::cin >> options.precision >> options.threshold >> options.edgeitems >>
         options.linewidth >> sci) {
    options.sci_mode.reset();
    if (sci >= 0) options.sci_mode = sci != 0;
    std::string dtype_name;
    int requires_grad = 0, dims = 0;
    std::cin >> dtype_name >> requires_grad >> dims;
    Shape sizes;
    for (int d = 0; d < dims; ++d) {
      int64_t size = 0;
      std::cin >> size;
      sizes.push_back(size);
    }
    const DType dtype = parse_dtype(dtype_name);
    std::vector<double> values;
    std::vector<int64_t> integers;
    for (int64_t i = 0; i < sizes.numel(); ++i) {
      std::string word;
      std::cin >> word;
      if (is_floating_point(dtype))
        values.push_back(std::stod(word));
      else
        integers.push_back(std::stoll(word));
    }
    set_printoptions(options);
    Tensor flat = is_floating_point(dtype) ? tensor(values, {.dtype = dtype})
                                           : tensor(integers, {.dtype = dtype});
    const Tensor shaped = as_strided(flat, sizes, contiguous_strides(sizes)).detach();
    if (requires_grad) shaped.requires_grad_();
    std::cout << shaped << "\n\f\n";
  }
}
