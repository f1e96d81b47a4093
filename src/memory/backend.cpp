// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/backend.hpp"

#include <array>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "memory/host_backend.hpp"

#ifdef TANDEM_WITH_CUDA
#include "memory/cuda_backend.hpp"
#endif

namespace tandem {
namespace {

/// A backend: everything that the rest of the library knows about it.
struct Entry {
  std::string_view name;
  std::string (*why_not)(const Device& device);
  std::shared_ptr<MemoryBackend> (*open)(const std::shared_ptr<Device>& device);
};

std::string needs_device(const Device& device, DeviceType type) {
  if (device.id().type == type) return {};
  return format("it is for {} devices, and this rank's device is {}", name(type), to_string(device.id()));
}

std::string why_not_cuda(const Device& device) {
#ifdef TANDEM_WITH_CUDA
  const std::string reason = needs_device(device, DeviceType::cuda);
  return reason.empty() ? why_no_cuda_backend(device) : reason;
#else
  static_cast<void>(device);
  return "this library was built without CUDA";
#endif
}

std::string why_not_there(const Device&) { return "this version of Tandem does not have it yet"; }

constexpr std::array<Entry, 4> entries{{
    {"host", [](const Device& device) { return needs_device(device, DeviceType::host); },
     [](const std::shared_ptr<Device>&) { return open_host_backend(); }},
#ifdef TANDEM_WITH_CUDA
    {"cuda", why_not_cuda, [](const std::shared_ptr<Device>& device) { return open_cuda_backend(device); }},
#else
    {"cuda", why_not_cuda, nullptr},
#endif
    {"nccl", why_not_there, nullptr},
    {"nvshmem", why_not_there, nullptr},
}};

const Entry& find(std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  std::string known = "auto";
  for (const Entry& entry : entries) known += format(", {}", entry.name);
  throw InvalidArgument(format("memory backend '{}' is not known; known: {}", name, known));
}

/// As above; "auto" is the device's own backend.
const Entry& find(std::string_view name, const Device& device) {
  return find(name == "auto" ? tandem::name(device.id().type) : name);
}

}  // namespace

Segment::~Segment() = default;
Mapping::~Mapping() = default;
MemoryBackend::~MemoryBackend() = default;

std::vector<std::string> memory_backend_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

std::string why_no_memory_backend(std::string_view name, const Device& device) {
  return find(name, device).why_not(device);
}

std::shared_ptr<MemoryBackend> open_memory_backend(std::string_view name, const std::shared_ptr<Device>& device) {
  const Entry& entry = find(name, *device);
  if (const std::string reason = entry.why_not(*device); !reason.empty()) {
    throw Unsupported(format("memory backend '{}' cannot be used: {}", entry.name, reason));
  }
  return entry.open(device);
}

}  // namespace tandem
