// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// One measurement for all libraries, so that only what is measured differs.
namespace measurement {

enum class Operation { all_reduce, all_gather, reduce_scatter };

/// One rank of one library. Calls block until the result is there; data are floats, sums are sums.
class Library {
 public:
  Library() = default;
  virtual ~Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;

  /// Makes ready for `operation` with `count` elements a rank (all_reduce: in all), as a user would who calls it often.
  virtual void prepare(Operation operation, std::size_t count) = 0;
  /// Where this rank's input lies, and where its result will.
  [[nodiscard]] virtual float* input() = 0;
  [[nodiscard]] virtual const float* output() = 0;
  virtual void run() = 0;

  /// Element for element, the greatest value of all ranks. Also a barrier.
  virtual void maximum(std::vector<double>& values) = 0;
};

struct Options {
  int ranks = 2;
  std::vector<Operation> operations{Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter};
  std::size_t begin = 1024;  ///< bytes, as nccl-tests count them: of the whole message of all ranks
  std::size_t end = std::size_t{16} << 20;
  std::size_t factor = 4;
  double seconds = 0.2;  ///< for each size
  bool fresh = false;    ///< each rank writes its input and reads its result between iterations, as programs do
  bool bind = true;      ///< rank r runs on core r mod cores, as mpirun would have it; else where the system puts it
};

/// From `--ranks N --op NAME --begin SIZE --end SIZE --factor F --seconds S --data still|fresh --bind core|none`, a
/// size as 64, 4K or 1M. Says what is allowed and ends the process where something else is given.
[[nodiscard]] Options parse(int argc, char** argv);

/// Binds this process and the threads that it will start; first thing of every rank.
void place(const Options& options, int rank);

/// Measures every operation and size. Rank 0 prints a line for each:
///   library op ranks size count type redop time_us mean_us algbw busbw #wrong
/// An iteration's time is the greatest of all ranks, and the median over the iterations counts. The mean, from
/// iterations of its own, is a rank's time for all of them, one behind the other, by their number, as nccl-tests have
/// it; the greatest of all ranks. They differ where ranks share a core: those come through two iterations in each of
/// their turns, so of every iteration one of them is late.
/// With fresh data there is nothing to follow one behind the other: all ranks begin an iteration at one moment, and the
/// mean is that of the same iterations.
void measure(Library& library, const Options& options);

}  // namespace measurement
