// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <functional>
#include <gtest/gtest.h>
#include <string_view>
#include <vector>

#include "tandem/device/device.hpp"

#include "support/cuda/captured_graph.hpp"
#include "support/cuda/driver_function.hpp"

namespace tandem::testing {

/// Whether the kernel of this mangled name is a library's GEMM, or one of Tandem's that only wait.
inline bool is_product(std::string_view kernel) { return kernel.find("tandem") == std::string_view::npos; }
inline bool is_wait(std::string_view kernel) { return kernel.find("wait_kernel") != std::string_view::npos; }
inline bool is_wait_or_product(std::string_view kernel) { return is_wait(kernel) || is_product(kernel); }

/// The nodes of a captured run, for inspection. The graph is never launched.
class RecordedGraph {
 public:
  /// Records what `body` queues on `stream`. `body` must not throw.
  RecordedGraph(Device& device, StreamRef stream, const std::function<void()>& body) {
    EXPECT_EQ(cudaSetDevice(device.id().index), cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(CapturedGraph::native(stream), cudaStreamCaptureModeGlobal), cudaSuccess);
    body();
    EXPECT_EQ(cudaStreamEndCapture(CapturedGraph::native(stream), &graph_), cudaSuccess);
    std::size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph_, nullptr, &count), cudaSuccess);
    nodes_.resize(count);
    EXPECT_EQ(cudaGraphGetNodes(graph_, nodes_.data(), &count), cudaSuccess);
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  ~RecordedGraph() { EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess); }

  [[nodiscard]] const std::vector<cudaGraphNode_t>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] static cudaGraphNodeType type_of(cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
    return type;
  }
  /// The most thread blocks of a kernel and all others that may run concurrently with it (that no path orders).
  [[nodiscard]] std::size_t most_blocks_at_once() const { return most_at_once(blocks_of); }
  /// `most_blocks_at_once` of only those kernels whose mangled names `is_counted` accepts.
  [[nodiscard]] std::size_t most_blocks_at_once(const std::function<bool(std::string_view)>& is_counted) const {
    return most_at_once(
        [&](const CUDA_KERNEL_NODE_PARAMS& kernel) { return is_counted(name_of(kernel)) ? blocks_of(kernel) : 0; });
  }
  /// The most kernels that `is_counted` accepts which may run concurrently with one of them, it included.
  [[nodiscard]] std::size_t most_kernels_at_once(const std::function<bool(std::string_view)>& is_counted) const {
    return most_at_once(
        [&](const CUDA_KERNEL_NODE_PARAMS& kernel) { return is_counted(name_of(kernel)) ? std::size_t{1} : 0; });
  }
  /// How many memcpy nodes come after a kernel that `is_counted` accepts.
  [[nodiscard]] std::size_t copies_behind(const std::function<bool(std::string_view)>& is_counted) const {
    const auto weight = [&](const CUDA_KERNEL_NODE_PARAMS& kernel) { return is_counted(name_of(kernel)) ? 1U : 0U; };
    const std::vector<std::vector<bool>> before = order();
    std::vector<bool> behind(nodes_.size());
    for (std::size_t one = 0; one < nodes_.size(); ++one) {
      if (weight_of(nodes_[one], weight) == 0) continue;
      for (std::size_t copy = 0; copy < nodes_.size(); ++copy) {
        if (before[one][copy] && type_of(nodes_[copy]) == cudaGraphNodeTypeMemcpy) behind[copy] = true;
      }
    }
    return static_cast<std::size_t>(std::ranges::count(behind, true));
  }

  /// The most memcpy nodes on one path.
  [[nodiscard]] std::size_t longest_chain_of_copies() const {
    const std::vector<std::vector<bool>> before = order();
    std::vector<std::size_t> copies;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (type_of(nodes_[node]) == cudaGraphNodeTypeMemcpy) copies.push_back(node);
    }
    // Of two on a path, more copies are before the second one.
    const auto copies_before = [&](std::size_t node) {
      return std::ranges::count_if(copies, [&](std::size_t copy) { return before[copy][node]; });
    };
    std::ranges::sort(copies, {}, copies_before);
    std::vector<std::size_t> longest(nodes_.size());  // of the chains that end at a copy
    std::size_t most = 0;
    for (const std::size_t copy : copies) {
      for (const std::size_t earlier : copies) {
        if (before[earlier][copy]) longest[copy] = std::max(longest[copy], longest[earlier]);
      }
      most = std::max(most, ++longest[copy]);
    }
    return most;
  }

 private:
  /// The largest sum of `weight` over a kernel and all that may run concurrently with it.
  template <typename Weight> [[nodiscard]] std::size_t most_at_once(const Weight& weight) const {
    const std::vector<std::vector<bool>> before = order();
    std::vector<std::size_t> weights;
    for (const cudaGraphNode_t node : nodes_) weights.push_back(weight_of(node, weight));
    std::size_t most = 0;
    for (std::size_t one = 0; one < nodes_.size(); ++one) {
      std::size_t all = 0;
      for (std::size_t other = 0; other < nodes_.size(); ++other) {
        if (!before[one][other] && !before[other][one]) all += weights[other];
      }
      if (weights[one] != 0) most = std::max(most, all);
    }
    return most;
  }
  /// Asks the driver, which knows all kernels: a runtime knows only those of the library that it is linked into.
  template <typename Weight> [[nodiscard]] static std::size_t weight_of(cudaGraphNode_t node, const Weight& weight) {
    if (type_of(node) != cudaGraphNodeTypeKernel) return 0;
    CUDA_KERNEL_NODE_PARAMS kernel{};
    EXPECT_EQ(TANDEM_DRIVER(cuGraphKernelNodeGetParams)(node, &kernel), CUDA_SUCCESS);
    return weight(kernel);
  }
  [[nodiscard]] static std::size_t blocks_of(const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return std::size_t{kernel.gridDimX} * kernel.gridDimY * kernel.gridDimZ;
  }
  /// A node has either a CUkernel or a CUfunction.
  [[nodiscard]] static std::string_view name_of(const CUDA_KERNEL_NODE_PARAMS& kernel) {
    const char* name = "";
    const CUresult result = kernel.kern != nullptr ? TANDEM_DRIVER_SINCE(12030, cuKernelGetName)(&name, kernel.kern)
                                                   : TANDEM_DRIVER_SINCE(12030, cuFuncGetName)(&name, kernel.func);
    EXPECT_EQ(result, CUDA_SUCCESS);
    return name;
  }
  /// [one][other]: whether the graph has a path from one to the other.
  [[nodiscard]] std::vector<std::vector<bool>> order() const {
    std::vector<std::vector<bool>> before(nodes_.size(), std::vector<bool>(nodes_.size()));
    std::size_t count = 0;
    std::vector<cudaGraphNode_t> from;
    std::vector<cudaGraphNode_t> to;
    EXPECT_EQ(edges(nullptr, nullptr, &count), cudaSuccess);
    from.resize(count);
    to.resize(count);
    EXPECT_EQ(edges(from.data(), to.data(), &count), cudaSuccess);
    const auto index = [&](cudaGraphNode_t node) {
      return static_cast<std::size_t>(std::ranges::find(nodes_, node) - nodes_.begin());
    };
    for (std::size_t edge = 0; edge < count; ++edge) before[index(from[edge])][index(to[edge])] = true;
    for (std::size_t middle = 0; middle < nodes_.size(); ++middle) {
      for (std::size_t one = 0; one < nodes_.size(); ++one) {
        for (std::size_t other = 0; other < nodes_.size(); ++other) {
          if (before[one][middle] && before[middle][other]) before[one][other] = true;
        }
      }
    }
    return before;
  }
  cudaError_t edges(cudaGraphNode_t* from, cudaGraphNode_t* to, std::size_t* count) const {
#if CUDART_VERSION >= 13000
    // Without an array for edge data the call fails if an edge has any, e.g. one of a programmatic launch.
    std::vector<cudaGraphEdgeData> data(from == nullptr ? 0 : *count);
    return cudaGraphGetEdges(graph_, from, to, from == nullptr ? nullptr : data.data(), count);
#else
    return cudaGraphGetEdges(graph_, from, to, count);
#endif
  }

  cudaGraph_t graph_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace tandem::testing
