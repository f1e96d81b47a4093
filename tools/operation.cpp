// SPDX-License-Identifier: Apache-2.0
#include "tools/operation.hpp"

#include "tools/parse.hpp"

namespace tandem::tools {

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names{"all_gather",
                                              "reduce_scatter",
                                              "all_reduce",
                                              "all_to_all",
                                              "broadcast",
                                              "all_gather_linear",
                                              "linear_reduce_scatter",
                                              "linear_all_reduce",
                                              "linear_weight_gradient"};
  return names;
}

const std::string& name(Operation operation) { return operation_names()[static_cast<std::size_t>(operation)]; }

Operation parse_operation(std::string_view text) {
  return static_cast<Operation>(parse_name("operation", text, operation_names()));
}

LinearKind linear_kind(Operation operation) {
  return static_cast<LinearKind>(static_cast<int>(operation) - static_cast<int>(Operation::all_gather_linear));
}

std::vector<std::string> algorithms(Operation operation) {
  switch (operation) {
    case Operation::all_gather: return {"push", "pull"};
    case Operation::reduce_scatter: return {"direct", "staged"};
    case Operation::all_reduce: return {"one_shot", "two_shot"};
    case Operation::all_to_all: return {"push", "pull", "staged"};
    case Operation::broadcast: return {"push", "pull", "staged"};
    default: return linear_algorithms(linear_kind(operation));
  }
}

}  // namespace tandem::tools
