// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <unistd.h>

#include "measurement.hpp"
#include "ranks.hpp"

namespace {

using measurement::Operation;

class Gloo final : public measurement::Library {
 public:
  Gloo(const std::string& folder, int rank, int ranks) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }

  [[nodiscard]] std::string name() const override { return "gloo"; }
  [[nodiscard]] int rank() const override { return context_->rank; }
  [[nodiscard]] int ranks() const override { return context_->size; }

  void prepare(Operation operation, std::size_t count) override {
    operation_ = operation;
    count_ = count;
    const std::size_t all = count * static_cast<std::size_t>(ranks());
    in_.assign(operation == Operation::reduce_scatter ? all : count, 0);
    out_.assign(operation == Operation::all_gather ? all : count, 0);
    if (operation == Operation::reduce_scatter) {
      const std::vector<int> parts(static_cast<std::size_t>(ranks()), static_cast<int>(count));
      reduce_scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{in_.data()}, static_cast<int>(all), parts);
    }
  }
  [[nodiscard]] float* input() override { return in_.data(); }
  /// Gloo's reduce_scatter is in place: the result is at the beginning of the input.
  [[nodiscard]] const float* output() override {
    return operation_ == Operation::reduce_scatter ? in_.data() : out_.data();
  }

  void run() override {
    switch (operation_) {
      case Operation::all_reduce: {
        gloo::AllreduceOptions options(context_);
        options.setInput(in_.data(), count_);
        options.setOutput(out_.data(), count_);
        options.setReduceFunction(
            static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
        break;
      }
      case Operation::all_gather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(in_.data(), count_);
        options.setOutput(out_.data(), out_.size());
        gloo::allgather(options);
        break;
      }
      case Operation::reduce_scatter: reduce_scatter_->run(); break;
    }
  }

  void maximum(std::vector<double>& values) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  Operation operation_ = Operation::all_reduce;
  std::size_t count_ = 0;
  std::vector<float> in_;
  std::vector<float> out_;
  std::unique_ptr<gloo::Algorithm> reduce_scatter_;
};

}  // namespace

int main(int argc, char** argv) {
  const measurement::Options options = measurement::parse(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const int status = measurement::fork_ranks(options.ranks, [&](int rank) {
    measurement::place(options, rank);
    Gloo library(folder, rank, options.ranks);
    measurement::measure(library, options);
  });
  std::filesystem::remove_all(folder);
  return status;
}
