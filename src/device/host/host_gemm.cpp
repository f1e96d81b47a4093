// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_gemm.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/gemm_check.hpp"
#include "device/host/builtin_gemm.hpp"
#include "device/host/host_crew.hpp"
#include "device/host/host_elementwise.hpp"
#include "device/host/host_sgemm.hpp"
#include "device/host/host_stream.hpp"
#include "device/host/packed_weights.hpp"
#include "device/host/workspace.hpp"

namespace tandem {

namespace {

// Panels of 16-bit operands, widened to fp32: 512 KiB of A, 1 MiB of B, 512 KiB of sums.
constexpr std::int64_t panel_m = 256;
constexpr std::int64_t panel_n = 512;
constexpr std::int64_t panel_k = 512;
// GEMMs of at least this many operations are worth waking a worker for: they take a good part of a millisecond.
constexpr double heavy_flops = 25e6;
// So is a part of a GEMM for another thread.
constexpr double least_flops_for_part = 25e6;
// Parts are multiples of these, so that they end where oneDNN's kernel tiles do (the built-in ones have 6 rows).
constexpr std::int64_t row_step = 8;
constexpr std::int64_t column_step = 16;
// Cost of packing an element of a part's operands for the kernels, in multiply-adds.
constexpr double step_aside = 32;

/// A matrix cut into `down` times `across` parts of this many rows and columns; the last ones may have fewer.
struct Parts {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t down;
  std::int64_t across;
};

Parts parts_of(std::int64_t m, std::int64_t n, std::int64_t down, std::int64_t across) noexcept {
  const auto cut = [](std::int64_t all, std::int64_t pieces, std::int64_t step) {
    return std::min(all, ((all + pieces - 1) / pieces + step - 1) / step * step);
  };
  const std::int64_t rows = cut(m, down, row_step);
  const std::int64_t columns = cut(n, across, column_step);
  return {rows, columns, (m + rows - 1) / rows, (n + columns - 1) / columns};
}

/// The cut that this many threads finish first; of equally fast ones, one with few parts.
Parts cut_for(std::int64_t m, std::int64_t n, std::int64_t threads) noexcept {
  Parts best{m, n, 1, 1};
  if (threads == 1) return best;
  double least = 0;
  for (std::int64_t down = 1; down <= threads; ++down) {
    for (std::int64_t across = 1; across <= threads; ++across) {
      const Parts parts = parts_of(m, n, down, across);
      const auto rows = static_cast<double>(parts.rows);
      const auto columns = static_cast<double>(parts.columns);
      const std::int64_t turns = (parts.down * parts.across + threads - 1) / threads;
      const double cost = static_cast<double>(turns) * (rows * columns + step_aside * (rows + columns));
      if (least != 0 && cost >= least) continue;
      least = cost;
      best = parts;
    }
  }
  return best;
}

/// Operands are widened.
bool is_narrow(const GemmSpec& spec) noexcept {
  return spec.dtype == f16 || spec.dtype == bf16 || is_float8(spec.dtype);
}

const GemmSpec& checked(const GemmSpec& spec) {
  if (spec.dtype != f32 && spec.dtype != f64 && !is_narrow(spec)) {
    throw Unsupported(
        format("a GEMM of {} on the host; it can do f32, f16, bf16, f8e4m3, f8e5m2 and f64", name(spec.dtype)));
  }
  check_gemm(spec);
  if (spec.auxiliary != Auxiliary::none && spec.out_dtype == f64) {
    throw Unsupported("a GEMM of f64 with an auxiliary tensor; activations keep f32, f16 and bf16");
  }
  return spec;
}

}  // namespace

HostGemmLibrary choose_gemm_library(GemmChoice choice) {
  if (choice == GemmChoice::builtin) return HostGemmLibrary::builtin;
  if (OneDnn::load() != nullptr) return HostGemmLibrary::onednn;
  if (choice == GemmChoice::automatic) return HostGemmLibrary::builtin;
  throw Unsupported(format("host GEMM '{}': {}", name(choice), OneDnn::why_absent()));
}

std::string describe_gemm_library(HostGemmLibrary library, GemmChoice choice) {
  if (library == HostGemmLibrary::onednn) return OneDnn::load()->name();
  return format("built-in kernels ({})",
                choice == GemmChoice::builtin ? "as asked" : "no oneDNN: " + OneDnn::why_absent());
}

// Measured with GEMMs of 128 to 2048 rows and 1024 by 1024 weights: on AMD EPYCs with AVX2, and on an Intel Xeon with
// AVX-512 and larger caches (oneDNN 2.6.3).
HostGemmSpeed gemm_speed(HostGemmLibrary library) noexcept {
  if (library == HostGemmLibrary::builtin) return {.flops_per_second = 50e9, .weights_bytes_per_second = 4e9};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {.flops_per_second = 160e9, .weights_bytes_per_second = 25e9};
#endif
  return {.flops_per_second = 80e9,
          .weights_bytes_per_second = 4e9,
          .packed_rows = PackedWeights::most_padded_rows,
          .packing_bytes_per_second = 1.5e9};
}

class HostGemm::Work {
 public:
  Work(const GemmSpec& spec, HostGemmLibrary library, HostCrew& crew) : spec_(spec), library_(library), crew_(crew) {
    // Any member of the crew may help, and needs its own panels.
    const auto members = static_cast<std::size_t>(threads(spec.m, spec.k) > 1 ? crew.size() : 1);
    if (spec.dtype == f64) {
      prepare(f64_, members);
    } else {
      prepare(f32_, members);
    }
    if (library == HostGemmLibrary::onednn) packed_ = PackedWeights::make(spec, members);
  }

  /// How many threads a GEMM with this m and k is worth.
  [[nodiscard]] int threads(std::int64_t m, std::int64_t k) const noexcept {
    const double parts =
        2.0 * static_cast<double>(m) * static_cast<double>(spec_.n) * static_cast<double>(k) / least_flops_for_part;
    return static_cast<int>(std::clamp(parts, 1.0, static_cast<double>(crew_.size())));
  }

  [[nodiscard]] bool packs_weights() const noexcept { return packed_ != nullptr; }

  void run(const GemmOperands& operands, const GemmRun& sizes) const {
    if (packed_ && operands.weights != Weights::again) packed_->forget();
    if (spec_.dtype == f64) {
      run_typed(resolve(operands, sizes), f64_);
    } else {
      run_typed(resolve(operands, sizes), f32_);
    }
    // Weights that were packed for this run's blocks are not shared with other runs.
    if (packed_ && operands.weights == Weights::once) packed_->forget();
  }

 private:
  /// One member's scratch memory.
  template <typename T> struct Panels {
    Workspace<T> a;
    Workspace<T> b;
    Workspace<T> sums;
    Workspace<T> kernel;  // for the built-in kernel
  };

  [[nodiscard]] bool narrow_operands() const noexcept { return is_narrow(spec_); }
  template <typename T> [[nodiscard]] bool sums_in_place() const noexcept {
    return spec_.out_dtype == (std::is_same_v<T, double> ? f64 : f32);
  }
  [[nodiscard]] bool has_last_step() const noexcept { return spec_.bias || spec_.activation != Activation::none; }
  /// The activation to apply to a sum before rounding. None with an auxiliary: then it follows, on rounded values.
  [[nodiscard]] Activation activation_of_sums() const noexcept {
    return spec_.auxiliary == Auxiliary::none ? spec_.activation : Activation::none;
  }

  // Extents of the blocks that one call of `multiply` computes.
  template <typename T> [[nodiscard]] std::int64_t block_m() const noexcept {
    const bool blocked = narrow_operands() || !sums_in_place<T>() || has_last_step();
    return blocked ? std::min(panel_m, spec_.m) : spec_.m;
  }
  template <typename T> [[nodiscard]] std::int64_t block_n() const noexcept {
    return narrow_operands() || !sums_in_place<T>() ? std::min(panel_n, spec_.n) : spec_.n;
  }
  [[nodiscard]] std::int64_t block_k() const noexcept {
    return narrow_operands() ? std::min(panel_k, spec_.k) : spec_.k;
  }

  template <typename T> void prepare(std::vector<Panels<T>>& all, std::size_t members) {
    const auto m = static_cast<std::size_t>(block_m<T>());
    const auto n = static_cast<std::size_t>(block_n<T>());
    const auto k = static_cast<std::size_t>(block_k());
    all.resize(members);
    for (Panels<T>& panels : all) {
      if (narrow_operands()) {
        panels.a = make_workspace<T>(m * k);
        panels.b = make_workspace<T>(k * n);
      }
      if (!sums_in_place<T>()) panels.sums = make_workspace<T>(m * n);
      if (std::is_same_v<T, double> || library_ == HostGemmLibrary::builtin) {
        panels.kernel = make_workspace<T>(builtin_gemm_workspace<T>());
      }
    }
  }

  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
                std::int64_t ldb, float beta, float* c, std::int64_t ldc, const Panels<float>& panels) const {
    host_sgemm(library_, spec_.transpose_a, spec_.transpose_b, m, n, k, spec_.alpha, a, lda, b, ldb, beta, c, ldc,
               panels.kernel.get());
  }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t lda, const double* b,
                std::int64_t ldb, float beta, double* c, std::int64_t ldc, const Panels<double>& panels) const {
    builtin_gemm<double>(spec_.transpose_a, spec_.transpose_b, m, n, k, static_cast<double>(spec_.alpha), a, lda, b,
                         ldb, static_cast<double>(beta), c, ldc, panels.kernel.get());
  }

  // A 16- or 8-bit matrix as it is stored.
  struct Narrow {
    const void* data;
    DType dtype;
    std::int64_t ld;
    const float* scale;
  };

  // Widens a block of a narrow matrix, `rows` by `columns` as stored, to dense fp32, and multiplies it by its scales:
  // one for each stored row, or with `scales_columns` for each stored column, if they are per_row.
  void widen_panel(const Narrow& from, std::int64_t first_row, std::int64_t first_column, std::int64_t rows,
                   std::int64_t columns, bool scales_columns, float* to) const {
    const auto* const bytes = static_cast<const std::byte*>(from.data);
    const auto element = static_cast<std::int64_t>(size_of(from.dtype));
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = to + r * columns;
      widen(from.dtype, bytes + ((first_row + r) * from.ld + first_column) * element, row, columns);
      if (spec_.scaling == Scaling::none) continue;
      if (spec_.scaling == Scaling::per_row && scales_columns) {
        for (std::int64_t c = 0; c < columns; ++c) row[c] *= from.scale[first_column + c];
      } else {
        const float scale = spec_.scaling == Scaling::per_tensor ? *from.scale : from.scale[first_row + r];
        for (std::int64_t c = 0; c < columns; ++c) row[c] *= scale;
      }
    }
  }

  // One run, with all defaults resolved.
  struct Run {
    const GemmOperands& operands;
    std::int64_t m;
    std::int64_t k;
    std::int64_t lda;
    std::int64_t ldb;
    std::int64_t ldd;
    float beta;
  };

  [[nodiscard]] Run resolve(const GemmOperands& operands, const GemmRun& sizes) const noexcept {
    const auto [m, k, beta] = sizes;
    const auto pitch = [](std::int64_t given, std::int64_t dense) {
      return given != 0 ? given : std::max<std::int64_t>(dense, 1);
    };
    return {operands,
            m,
            k,
            pitch(operands.lda != 0 ? operands.lda : spec_.lda, spec_.transpose_a ? m : k),
            pitch(spec_.ldb, spec_.transpose_b ? k : spec_.n),
            pitch(spec_.ldd, spec_.n),
            beta};
  }

  template <typename T> void run_typed(const Run& run, const std::vector<Panels<T>>& panels) const {
    const Parts parts = cut_for(run.m, spec_.n, threads(run.m, run.k));
    crew_.run(static_cast<int>(parts.down * parts.across), [&](int part, int member) {
      const std::int64_t i = part / parts.across * parts.rows;
      const std::int64_t j = part % parts.across * parts.columns;
      run_part(run, {i, std::min(i + parts.rows, run.m)}, {j, std::min(j + parts.columns, spec_.n)}, member,
               panels[static_cast<std::size_t>(member)]);
    });
  }

  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  /// Computes these rows and columns of the result.
  template <typename T>
  void run_part(const Run& run, Range rows, Range columns, int member, const Panels<T>& panels) const {
    const std::int64_t n = spec_.n;
    const auto out_bytes = static_cast<std::int64_t>(size_of(spec_.out_dtype));
    const bool in_place = sums_in_place<T>();
    const bool adds = run.operands.c != nullptr && run.beta != 0.0F;
    // A separate C is added to sums while they are still in the cache, hence small blocks.
    const std::int64_t block = adds ? std::min(panel_m, block_m<T>()) : block_m<T>();
    for (std::int64_t i = rows.begin; i < rows.end; i += block) {
      const std::int64_t mm = std::min(block, rows.end - i);
      for (std::int64_t j = columns.begin; j < columns.end; j += block_n<T>()) {
        const std::int64_t nn = std::min(block_n<T>(), columns.end - j);
        const std::int64_t place = (i * run.ldd + j) * out_bytes;
        auto* const out = static_cast<std::byte*>(run.operands.d) + place;
        const std::byte* const addend = adds ? static_cast<const std::byte*>(run.operands.c) + place : out;
        const bool added = in_place && !adds;  // sum_block adds beta · D
        T* const sums = in_place ? reinterpret_cast<T*>(out) : panels.sums.get();
        const std::int64_t ld_sums = in_place ? run.ldd : nn;
        sum_block(run, i, j, mm, nn, added ? run.beta : 0.0F, sums, ld_sums, member, panels);
        if (added && !has_last_step()) continue;
        const auto* const bias =
            spec_.bias ? static_cast<const std::byte*>(run.operands.bias) + j * out_bytes : nullptr;
        for (std::int64_t r = 0; r < mm; ++r) {
          std::byte* const row = out + r * run.ldd * out_bytes;
          finish_row(sums + r * ld_sums, addend + r * run.ldd * out_bytes, row, spec_.out_dtype, bias,
                     added ? T(0) : static_cast<T>(run.beta), activation_of_sums(), nn);
          if (spec_.auxiliary != Auxiliary::none) {
            activate(row, static_cast<std::byte*>(run.operands.aux) + ((i + r) * n + j) * out_bytes, nn);
          }
        }
      }
    }
  }

  /// Applies an activation with its auxiliary to a row of `count` elements that are still in the cache.
  void activate(std::byte* row, std::byte* aux, std::int64_t count) const {
    const bool forward = spec_.auxiliary == Auxiliary::output;
    if (forward) std::memcpy(aux, row, static_cast<std::size_t>(count) * size_of(spec_.out_dtype));
    map_now({.kind = forward ? MapKind::activate : MapKind::activate_grad,
             .out = row,
             .x = aux,
             .y = forward ? nullptr : row,
             .count = count,
             .dtype = spec_.out_dtype,
             .out_dtype = spec_.out_dtype,
             .activation = spec_.activation});
  }

  // sums[mm, nn] = alpha · op(A)[i.., :] · op(B)[:, j..] + beta · sums
  template <typename T>
  void sum_block(const Run& run, std::int64_t i, std::int64_t j, std::int64_t mm, std::int64_t nn, float beta, T* sums,
                 std::int64_t ld_sums, int member, const Panels<T>& panels) const {
    if (run.k == 0) {
      multiply(mm, nn, 0, nullptr, 1, nullptr, 1, beta, sums, ld_sums, panels);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_operands()) return sum_panels(run, i, j, mm, nn, beta, sums, ld_sums, panels);
    }
    const T* const a = static_cast<const T*>(run.operands.a) + (spec_.transpose_a ? i : i * run.lda);
    const T* const b = static_cast<const T*>(run.operands.b) + (spec_.transpose_b ? j * run.ldb : j);
    if constexpr (std::is_same_v<T, float>) {
      // If the run has several blocks of rows, those share the weights, even if other runs do not.
      const bool shared = run.operands.weights != Weights::once || mm < run.m;
      const bool packable =
          packed_ && beta == 0.0F && nn == spec_.n && run.k == spec_.k && run.lda == spec_.k && ld_sums == spec_.n;
      if (packable && packed_->multiply(member, mm, a, b, sums, shared)) return;
    }
    multiply(mm, nn, run.k, a, run.lda, b, run.ldb, beta, sums, ld_sums, panels);
  }

  void sum_panels(const Run& run, std::int64_t i, std::int64_t j, std::int64_t mm, std::int64_t nn, float beta,
                  float* sums, std::int64_t ld_sums, const Panels<float>& panels) const {
    const Narrow a{run.operands.a, spec_.dtype, run.lda, run.operands.a_scale};
    const Narrow b{run.operands.b, spec_.dtype_of_b(), run.ldb, run.operands.b_scale};
    for (std::int64_t p = 0; p < run.k; p += block_k()) {
      const std::int64_t kk = std::min(block_k(), run.k - p);
      if (spec_.transpose_a) {
        widen_panel(a, p, i, kk, mm, true, panels.a.get());
      } else {
        widen_panel(a, i, p, mm, kk, false, panels.a.get());
      }
      if (spec_.transpose_b) {
        widen_panel(b, j, p, nn, kk, false, panels.b.get());
      } else {
        widen_panel(b, p, j, kk, nn, true, panels.b.get());
      }
      multiply(mm, nn, kk, panels.a.get(), spec_.transpose_a ? mm : kk, panels.b.get(), spec_.transpose_b ? kk : nn,
               p == 0 ? beta : 1.0F, sums, ld_sums, panels);
    }
  }

  const GemmSpec spec_;
  const HostGemmLibrary library_;
  HostCrew& crew_;
  std::vector<Panels<float>> f32_;  // one per member
  std::vector<Panels<double>> f64_;
  std::unique_ptr<PackedWeights> packed_;  // null: weights are not packed for sharing
};

HostGemm::HostGemm(const GemmSpec& spec, HostGemmLibrary library, GemmChoice choice, HostCrew& crew,
                   const HostWorkers& workers)
    : Gemm(checked(spec)), work_(std::make_shared<const Work>(this->spec(), library, crew)), workers_(workers) {
  const bool own = library == HostGemmLibrary::builtin || spec.dtype == f64;
  const std::string by = own && library == HostGemmLibrary::onednn ? "built-in kernels (oneDNN has no f64 product)"
                                                                   : describe_gemm_library(library, choice);
  const int threads = work_->threads(spec.m, spec.k);
  description_ = format("{}{}{}{}{}{}", by, own ? "" : " sgemm", spec.tf32 ? " in fp32, which has no TF32" : "",
                        is_narrow(spec) ? format(", {} through f32 panels", dtypes_of(spec)) : std::string(),
                        work_->packs_weights() ? ", weights packed once for products in pieces" : "",
                        threads > 1 ? format(", on {} threads", threads) : std::string());
}

void HostGemm::run(StreamRef stream, const GemmOperands& operands) {
  const GemmRun sizes = check_gemm_run(spec(), operands);
  const double products = static_cast<double>(sizes.m) * static_cast<double>(spec().n) * static_cast<double>(sizes.k);
  const bool heavy = 2.0 * products >= heavy_flops;
  HostStream::from(stream, workers_)
      .enqueue([work = work_, operands, sizes] { work->run(operands, sizes); },
               heavy ? TaskWeight::heavy : TaskWeight::light);
}

}  // namespace tandem
