// SPDX-License-Identifier: Apache-2.0
// Must be started by mpirun.
#include <mpi.h>

#include "measurement.hpp"

namespace {

using measurement::Operation;

class OpenMpi final : public measurement::Library {
 public:
  [[nodiscard]] std::string name() const override { return "openmpi"; }
  [[nodiscard]] int rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  [[nodiscard]] int ranks() const override {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return ranks;
  }

  void prepare(Operation operation, std::size_t count) override {
    operation_ = operation;
    count_ = static_cast<int>(count);
    const std::size_t all = count * static_cast<std::size_t>(ranks());
    in_.assign(operation == Operation::reduce_scatter ? all : count, 0);
    out_.assign(operation == Operation::all_gather ? all : count, 0);
  }
  [[nodiscard]] float* input() override { return in_.data(); }
  [[nodiscard]] const float* output() override { return out_.data(); }

  void run() override {
    switch (operation_) {
      case Operation::all_reduce:
        MPI_Allreduce(in_.data(), out_.data(), count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Operation::all_gather:
        MPI_Allgather(in_.data(), count_, MPI_FLOAT, out_.data(), count_, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Operation::reduce_scatter:
        MPI_Reduce_scatter_block(in_.data(), out_.data(), count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
  }

  void maximum(std::vector<double>& values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

 private:
  Operation operation_ = Operation::all_reduce;
  int count_ = 0;
  std::vector<float> in_;
  std::vector<float> out_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const measurement::Options options = measurement::parse(argc, argv);
    OpenMpi library;
    measurement::place(options, library.rank());
    measurement::measure(library, options);
  }
  MPI_Finalize();
}
