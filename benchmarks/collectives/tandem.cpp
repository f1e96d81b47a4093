// SPDX-License-Identifier: Apache-2.0
// Tandem in two variants: "tandem" uses symmetric tensors, "tandem-plain" private memory.
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <unistd.h>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/team/world.hpp"

#include "measurement.hpp"
#include "ranks.hpp"

namespace {

using measurement::Operation;

class Tandem final : public measurement::Library {
 public:
  Tandem(tandem::World& world, bool symmetric) : team_(world.team()), symmetric_(symmetric), stream_(team_.device()) {}

  [[nodiscard]] std::string name() const override { return symmetric_ ? "tandem" : "tandem-plain"; }
  [[nodiscard]] int rank() const override { return team_.rank(); }
  [[nodiscard]] int ranks() const override { return team_.size(); }

  void prepare(Operation operation, std::size_t count) override {
    operation_ = operation;
    const auto elements = static_cast<std::int64_t>(count);
    const bool gathers = operation == Operation::all_gather;
    const bool scatters = operation == Operation::reduce_scatter;
    in_elements_ = scatters ? elements * team_.size() : elements;
    out_elements_ = gathers ? elements * team_.size() : elements;
    // For each operation it is enough that the buffer which peers read or write is symmetric.
    symmetric_in_ = make(symmetric_ && !gathers, in_elements_);
    symmetric_out_ = make(symmetric_ && !scatters, out_elements_);
    plain_in_.assign(static_cast<std::size_t>(in_elements_), 0);
    plain_out_.assign(static_cast<std::size_t>(out_elements_), 0);
    in_ = tandem::TensorView(plain_in_.data(), {in_elements_}, tandem::f32);
    out_ = tandem::TensorView(plain_out_.data(), {out_elements_}, tandem::f32);
    const tandem::CollectiveOptions options;
    switch (operation) {
      case Operation::all_reduce:
        all_reduce_.emplace(team_, tandem::AllReduceSpec{elements, tandem::f32}, options);
        break;
      case Operation::all_gather:
        all_gather_.emplace(team_, tandem::AllGatherSpec{elements, tandem::f32}, options);
        break;
      case Operation::reduce_scatter:
        reduce_scatter_.emplace(team_, tandem::ReduceScatterSpec{elements, tandem::f32}, options);
        break;
    }
  }

  [[nodiscard]] float* input() override {
    return symmetric_in_ ? symmetric_in_.local().data_as<float>() : plain_in_.data();
  }
  [[nodiscard]] const float* output() override {
    return symmetric_out_ ? symmetric_out_.local().data_as<float>() : plain_out_.data();
  }

  void run() override {
    switch (operation_) {
      case Operation::all_reduce:
        symmetric_ ? (*all_reduce_)(symmetric_in_, symmetric_out_, stream_) : (*all_reduce_)(in_, out_, stream_);
        break;
      case Operation::all_gather:
        symmetric_ ? (*all_gather_)(in_, symmetric_out_, stream_) : (*all_gather_)(in_, out_, stream_);
        break;
      case Operation::reduce_scatter:
        symmetric_ ? (*reduce_scatter_)(symmetric_in_, out_, stream_) : (*reduce_scatter_)(in_, out_, stream_);
        break;
    }
    team_.synchronize(stream_);
  }

  void maximum(std::vector<double>& values) override {
    tandem::Parcel parcel;
    parcel.bytes.resize(values.size() * sizeof(double));
    std::memcpy(parcel.bytes.data(), values.data(), parcel.bytes.size());
    std::vector<double> theirs(values.size());
    for (const tandem::Parcel& other : team_.exchange("benchmark", std::move(parcel))) {
      std::memcpy(theirs.data(), other.bytes.data(), other.bytes.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], theirs[i]);
    }
  }

 private:
  [[nodiscard]] tandem::SymmetricTensor make(bool wanted, std::int64_t elements) const {
    if (!wanted) return {};
    tandem::SymmetricTensor tensor = tandem::SymmetricTensor::empty(team_, {elements}, tandem::f32);
    tensor.rendezvous();
    return tensor;
  }

  tandem::Team team_;
  bool symmetric_;
  tandem::Stream stream_;
  Operation operation_ = Operation::all_reduce;
  std::int64_t in_elements_ = 0;
  std::int64_t out_elements_ = 0;
  tandem::SymmetricTensor symmetric_in_;
  tandem::SymmetricTensor symmetric_out_;
  std::vector<float> plain_in_;
  std::vector<float> plain_out_;
  tandem::TensorView in_;  // in_ and out_: views of the two above
  tandem::TensorView out_;
  std::optional<tandem::AllReduce> all_reduce_;
  std::optional<tandem::AllGather> all_gather_;
  std::optional<tandem::ReduceScatter> reduce_scatter_;
};

}  // namespace

int main(int argc, char** argv) {
  const measurement::Options options = measurement::parse(argc, argv);
  const std::string job = "benchmark." + std::to_string(std::random_device{}());
  return measurement::fork_ranks(options.ranks, [&](int rank) {
    measurement::place(options, rank);
    tandem::InitOptions init;
    init.launch = tandem::Launch{rank, options.ranks, rank, options.ranks, 1, job, "benchmark"};
    tandem::World world = tandem::init(init);
    for (const bool symmetric : {true, false}) {
      Tandem library(world, symmetric);
      measurement::measure(library, options);
    }
  });
}
