// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/dims.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/env.hpp"
#include "tandem/base/tensor_view.hpp"

#include "wrong_use/rows.hpp"
#include "wrong_use/support.hpp"

namespace tandem::wrong_use {
namespace {

/// Sets a variable in this process's environment for as long as the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Wrong variable(const char* name, const char* value) {
  return alone([=] {
    static_cast<void>(Env::from([=](const std::string& asked) -> std::optional<std::string> {
      return asked == name ? std::optional<std::string>(value) : std::nullopt;
    }));
  });
}

}  // namespace

const std::vector<Row>& base_rows() {
  static const std::vector<Row> table{
      // Names and values
      {"UnknownDType", 0, alone([] { static_cast<void>(parse_dtype("fp32")); }), {"'fp32' is not known", "f32, f16"}},
      {"TooManyDimensions", 0, alone([] { const Dims dims{1, 1, 1, 1, 1, 1, 1, 1, 1}; }), {"9 dimensions", "at most"}},
      {"NegativeExtent", 0, alone([] { static_cast<void>(Dims{2, -3}.numel()); }), {"[2, -3]", "negative"}},
      {"TooManyElements", 0, alone([] { static_cast<void>(Dims{1LL << 40, 1LL << 40}.numel()); }), {"2^63"}},
      {"NegativeTensor", 0, alone([] { const TensorView x(memory().data(), {-10}, f32); }), {"[-10]", "negative"}},
      {"NullTensor", 0, alone([] { const TensorView x(nullptr, {4}, f32); }), {"null pointer", "[4]"}},
      {"StridesOfAnotherLength", 0, alone([] { const TensorView x(memory().data(), {4, 2}, {1}, f32); }), {"differ"}},
      {"NarrowedTooFar", 0, alone([] { static_cast<void>(view({4}).narrow(0, 3, 2)); }), {"dimension 0", "[4]"}},
      {"ReshapedToOtherSize", 0, alone([] { static_cast<void>(view({4}).reshaped({5})); }), {"[4]", "[5]"}},
      {"MalformedLink", 0, alone([] { static_cast<void>(parse_link("20us")); }), {"'20us'", "LATENCY,BANDWIDTH"}},
      // The environment
      {"EnvLog", 0, variable("TANDEM_LOG", "loud"), {"TANDEM_LOG is 'loud'", "none, error, warn"}},
      {"EnvTimeout", 0, variable("TANDEM_TIMEOUT", "soon"), {"TANDEM_TIMEOUT is 'soon'", "ms, s, m or h"}},
      {"EnvTimeoutTooShort", 0, variable("TANDEM_TIMEOUT", "0"), {"TANDEM_TIMEOUT is '0'", "from 1ms"}},
      {"EnvDevice", 0, variable("TANDEM_DEVICE", "gpu"), {"TANDEM_DEVICE is 'gpu'", "auto, host, cuda"}},
      {"EnvLink", 0, variable("TANDEM_LINK", "fast"), {"'fast'", "LATENCY,BANDWIDTH"}},
      {"EnvGemm", 0, variable("TANDEM_GEMM", "mkl"), {"TANDEM_GEMM is 'mkl'", "auto, onednn, builtin"}},
      {"EnvUnknown",
       0,
       alone([] {
         const Variable unknown("TANDEM_TIME_OUT", "5");
         static_cast<void>(Env::from_process());
       }),
       {"TANDEM_TIME_OUT", "no such variable", "TANDEM_TIMEOUT"}},
  };
  return table;
}

}  // namespace tandem::wrong_use
