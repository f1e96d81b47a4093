// SPDX-License-Identifier: Apache-2.0
#pragma once

// What most programs need. Device-level plans (gemm.hpp, reduce.hpp, …) and cost models have their own headers.

// IWYU pragma: begin_exports
#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/error.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/base/version.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/graph.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/device/trace_range.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/bulk_overlap.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/signal_pad.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/team.hpp"
#include "tandem/team/world.hpp"
// IWYU pragma: end_exports
