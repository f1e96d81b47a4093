// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// One measurement for all libraries, so that only the libraries differ.
namespace measurement {

enum class Operation { all_reduce, all_gather, reduce_scatter };

/// One rank of one library. Calls block until the result is available; data are floats, reductions are sums.
class Library {
 public:
  Library() = default;
  virtual ~Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;

  /// Prepares `operation` with `count` elements per rank (all_reduce: in total), as a user with many calls would.
  virtual void prepare(Operation operation, std::size_t count) = 0;
  /// This rank's input and result.
  [[nodiscard]] virtual float* input() = 0;
  [[nodiscard]] virtual const float* output() = 0;
  virtual void run() = 0;

  /// Replaces each element with its maximum over all ranks. Also a barrier.
  virtual void maximum(std::vector<double>& values) = 0;
};

struct Options {
  int ranks = 2;
  std::vector<Operation> operations{Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter};
  std::size_t begin = 1024;  ///< bytes, as nccl-tests counts them: of the message of all ranks together
  std::size_t end = std::size_t{16} << 20;
  std::size_t factor = 4;
  double seconds = 0.2;  ///< for each size
  bool fresh = false;    ///< each rank writes its input and reads its result between iterations, as programs do
  bool bind = true;      ///< rank r is pinned to core r mod cores, as mpirun does; else not pinned
};

/// Parses `--ranks N --op NAME --begin SIZE --end SIZE --factor F --seconds S --data still|fresh --bind core|none`,
/// with sizes such as 64, 4K or 1M. Prints what is allowed and ends the process if anything else is given.
[[nodiscard]] Options parse(int argc, char** argv);

/// Pins this process and the threads that it will start; every rank must call it first.
void place(const Options& options, int rank);

/// Measures every operation and size. Rank 0 prints a line for each:
///   library op ranks size count type redop time_us mean_us algbw busbw #wrong
/// An iteration's time is the maximum over all ranks; "time" is the median over the iterations. "mean" is from separate
/// iterations without waits in between, as in nccl-tests: a rank's time for all of them divided by their number, and
/// the maximum of that over all ranks. The two differ if ranks share a core: each rank then finishes two iterations per
/// time slice, so in every iteration one of them is late.
/// With fresh data iterations cannot follow each other directly: all ranks start each iteration at the same moment, and
/// the mean is over the same iterations as the median.
void measure(Library& library, const Options& options);

}  // namespace measurement
