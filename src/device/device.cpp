// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/device.hpp"

#include "tandem/base/error.hpp"

#include "base/enum_check.hpp"
#include "base/env_check.hpp"
#include "base/format.hpp"
#include "device/host/host_device.hpp"

#if defined(TANDEM_WITH_CUDA)
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/visible_devices.hpp"
#endif

namespace tandem {

namespace {

#if !defined(TANDEM_WITH_CUDA)
int cuda_device_count() noexcept { return 0; }
std::string why_no_cuda_device() { return "built without CUDA"; }
std::shared_ptr<Device> open_cuda_device(int) { throw Unsupported("CUDA devices: " + why_no_cuda_device()); }
#endif

void check_index(DeviceId id, int count) {
  if (id.index >= 0 && id.index < count) return;
  throw InvalidArgument(
      format("device {} of type {}; this process can use {}, numbered from 0", id.index, name(id.type), count));
}

void check_options(DeviceId id, const DeviceOptions& options) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(format("device {} was to be opened {}", to_string(id), why));
  };
  if (options.link && !is_link(*options.link)) {
    refuse(format("with a link of {}ns,{}B/s; allowed: a latency from 0 to 60 s, 1 KB/s and more",
                  options.link->latency.count(), options.link->bytes_per_second));
  }
  if (const std::string why = why_unknown("its GEMM", options.gemm, GemmChoice::builtin); !why.empty()) {
    refuse("where " + why);
  }
  if (options.gemm_threads < 0 || options.gemm_threads > most_gemm_threads) {
    refuse(format("with {} threads for a GEMM; allowed: 0 to {}", options.gemm_threads, most_gemm_threads));
  }
  if (options.ranks < 1) refuse(format("for {} ranks; allowed: 1 and more", options.ranks));
}

}  // namespace

Device::~Device() = default;

void Device::expect_values(const char* call, const TensorView& tensor, DType stored, std::size_t count) const {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(format("{} {} by {}: {}", call, to_string(tensor), to_string(id_), why));
  };
  if (tensor.device() != id_) refuse("the tensor is on another device");
  if (!tensor.is_dense()) refuse("its elements are not contiguous");
  const bool bytes = stored == u8 && size_of(tensor.dtype()) == 1;
  if (stored != tensor.dtype() && !bytes) {
    refuse(format("the values are {}; allowed is the type that stores {}", name(stored), name(tensor.dtype())));
  }
  const std::int64_t numel = tensor.numel();
  if (count != static_cast<std::size_t>(numel)) refuse(format("{} values for its {} elements", count, numel));
}

void* Device::graph_create(StreamRef /*stream*/, const std::function<void()>& /*body*/) {
  throw Unsupported(format("{} records no graphs", to_string(id_)));
}

void Device::graph_destroy(void* /*graph*/) noexcept {}

void Device::graph_launch(void* /*graph*/, StreamRef /*stream*/) {
  throw Unsupported(format("{} records no graphs", to_string(id_)));
}

void Device::push(StreamRef stream, std::span<const Push> pushes, WaitControl* control) {
  for (const Push& push : pushes) {
    copy(stream, push.copy);
    signal(stream, std::span(&push.put, 1), control);
  }
}

void Device::signal_and_wait(StreamRef stream, std::span<const SignalPut> puts, std::span<const SignalWait> waits,
                             WaitControl* control) {
  signal(stream, puts, control);
  wait(stream, waits, control);
}

void Device::mail(StreamRef /*stream*/, std::span<const Letter> /*letters*/, const MailUse& /*use*/,
                  WaitControl* /*control*/) {
  throw Unsupported(format("{} sends no letters", to_string(id_)));
}

void Device::mailed_exchange(StreamRef /*stream*/, const MailedExchange& /*exchange*/, WaitControl* /*control*/) {
  throw Unsupported(format("{} exchanges no mail", to_string(id_)));
}

void Device::reduce_in_meeting(StreamRef /*stream*/, const Reduction& /*reduction*/, const MeetingBlocks& /*meeting*/,
                               WaitControl* /*control*/) {
  throw Unsupported(format("{} does not reduce in meetings", to_string(id_)));
}

void Device::copy_in_meeting(StreamRef /*stream*/, std::span<const Copy> /*copies*/, const MeetingBlocks& /*meeting*/,
                             WaitControl* /*control*/) {
  throw Unsupported(format("{} does not copy in meetings", to_string(id_)));
}

void Device::spread_in_meeting(StreamRef /*stream*/, const Spread& /*spread*/, const MeetingBlocks& /*meeting*/,
                               WaitControl* /*control*/) {
  throw Unsupported(format("{} does not copy in meetings", to_string(id_)));
}

std::unique_ptr<Attention> Device::attention(const AttentionSpec& /*spec*/) {
  throw Unsupported(format("attention on {}: {}", to_string(id_), why_no_attention()));
}

std::string Device::read_process(std::int64_t /*process*/, const void* /*address*/, void* /*to*/,
                                 std::size_t /*bytes*/) {
  return format("{} reads no other process's private memory", to_string(id_));
}

void Device::lend(StreamRef /*stream*/, Loan* /*loan*/, const void* /*memory*/) {
  throw Unsupported(format("{} lends no private memory to peers", to_string(id_)));
}

void Device::fetch(StreamRef /*stream*/, const Fetch& /*fetch*/, WaitControl* /*control*/) {
  throw Unsupported(format("{} reads no other process's private memory", to_string(id_)));
}

int device_count(DeviceType type) noexcept { return type == DeviceType::host ? 1 : cuda_device_count(); }

std::string why_no_device(DeviceType type) { return type == DeviceType::host ? std::string() : why_no_cuda_device(); }

std::shared_ptr<Device> open_device(DeviceId id, const DeviceOptions& options) {
  check_options(id, options);
  if (id.type == DeviceType::host) {
    check_index(id, 1);
    return std::make_shared<HostDevice>(options);
  }
  if (options.link) throw InvalidArgument("an emulated link is for the host device; " + to_string(id) + " has its own");
  if (options.gemm != GemmChoice::automatic) {
    throw InvalidArgument(
        format("GEMM '{}' is for the host device; {} has its own", name(options.gemm), to_string(id)));
  }
  const int count = cuda_device_count();
  if (count == 0) throw Unsupported(format("device {}: {}", to_string(id), why_no_cuda_device()));
  check_index(id, count);
  return open_cuda_device(id.index);
}

}  // namespace tandem
