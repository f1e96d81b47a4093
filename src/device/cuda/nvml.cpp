// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/nvml.hpp"

#include <array>
#include <dlfcn.h>

#include "base/format.hpp"

namespace tandem::cuda {
namespace {

using Handle = void*;  // nvmlDevice_t

// NVML_CLOCK_SM of nvmlClockType_t.
constexpr int multiprocessors = 1;
// Values of nvmlGpuP2PCapsIndex_t.
constexpr int reads = 0;
constexpr int nvlink = 2;

/// nvmlGpuP2PStatus_t in words; empty for NVML_P2P_STATUS_OK.
std::string text_of_status(int status) {
  switch (status) {
    case 0: return "";
    case 1: return "the chipset does not support it";
    case 2: return "the GPU does not support it";
    case 3: return "the way between their I/O hubs does not support it";
    case 4: return "the driver's registry key disables it";
    case 5: return "it is not supported";
    default: return format("NVML's P2P status {}", status);
  }
}

/// nvmlGpuTopologyLevel_t in words.
std::string text_of_path(int level) {
  switch (level) {
    case 0: return "one board";
    case 10: return "PCIe through one switch";
    case 20: return "PCIe through several switches";
    case 30: return "PCIe through a host bridge";
    case 40: return "PCIe through host bridges of one NUMA node";
    case 50: return "PCIe and the link between CPUs";
    default: return format("NVML's topology level {}", level);
  }
}

}  // namespace

/// Declared here, since not every toolkit installation has nvml.h; these prototypes have never changed. Functions that
/// only `pair` and `sm_clock` call may be null: some are new in NVML 8.
struct Nvml::Functions {
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*by_uuid)(const char*, Handle*) = nullptr;
  int (*uuid_of)(Handle, char*, unsigned) = nullptr;
  int (*peer_status)(Handle, Handle, int, int*) = nullptr;
  int (*link_state)(Handle, unsigned, int*) = nullptr;
  int (*path)(Handle, Handle, int*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*most_clock)(Handle, int, unsigned*) = nullptr;
};

std::unique_ptr<const Nvml> Nvml::open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto load = [library]<typename Function>(Function*& pointer, const char* name) {
    pointer = reinterpret_cast<Function*>(dlsym(library, name));
    return pointer != nullptr;
  };
  Functions all;
  const bool has_all = load(all.start, "nvmlInit_v2") && load(all.stop, "nvmlShutdown") &&
                       load(all.count, "nvmlDeviceGetCount_v2") &&
                       load(all.by_index, "nvmlDeviceGetHandleByIndex_v2") && load(all.uuid_of, "nvmlDeviceGetUUID");
  if (!has_all || all.start() != 0) {
    dlclose(library);
    return nullptr;
  }
  load(all.by_uuid, "nvmlDeviceGetHandleByUUID");
  load(all.peer_status, "nvmlDeviceGetP2PStatus");
  load(all.link_state, "nvmlDeviceGetNvLinkState");
  load(all.path, "nvmlDeviceGetTopologyCommonAncestor");
  load(all.clock, "nvmlDeviceGetClockInfo");
  load(all.most_clock, "nvmlDeviceGetMaxClockInfo");
  return std::unique_ptr<const Nvml>(new Nvml(library, all));
}

Nvml::Nvml(void* library, const Functions& functions)
    : library_(library), functions_(std::make_unique<const Functions>(functions)) {}

Nvml::~Nvml() {
  functions_->stop();
  dlclose(library_);
}

std::optional<std::vector<std::string>> Nvml::uuids() const {
  unsigned gpus = 0;
  if (functions_->count(&gpus) != 0) return std::nullopt;
  std::vector<std::string> uuids;
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    Handle handle = nullptr;
    std::array<char, 96> uuid{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, always enough
    // A GPU that does not report its UUID still counts.
    const bool told =
        functions_->by_index(gpu, &handle) == 0 && functions_->uuid_of(handle, uuid.data(), uuid.size()) == 0;
    uuids.emplace_back(told ? uuid.data() : "");
  }
  return uuids;
}

std::optional<Nvml::Pair> Nvml::pair(const std::string& one, const std::string& other) const {
  const Functions& call = *functions_;
  if (call.by_uuid == nullptr || call.peer_status == nullptr) return std::nullopt;
  Handle from = nullptr;
  Handle to = nullptr;
  int by_nvlink = 0;
  int readable = 0;
  if (call.by_uuid(one.c_str(), &from) != 0 || call.by_uuid(other.c_str(), &to) != 0 ||
      call.peer_status(from, to, nvlink, &by_nvlink) != 0 || call.peer_status(from, to, reads, &readable) != 0) {
    return std::nullopt;
  }
  Pair pair{.wires = "PCIe", .why_no_peers = text_of_status(readable)};
  if (by_nvlink == 0) {
    constexpr unsigned most_links = 18;
    int links = 0;  // active links of the first GPU; a switch may share them among peers
    for (unsigned link = 0; call.link_state != nullptr && link < most_links; ++link) {
      int active = 0;
      if (call.link_state(from, link, &active) == 0 && active == 1) ++links;
    }
    pair.wires = links > 0 ? format("NVLink ({} links)", links) : "NVLink";
  } else if (int level = 0; call.path != nullptr && call.path(from, to, &level) == 0) {
    pair.wires = text_of_path(level);
  }
  return pair;
}

std::optional<GpuClock::Reading> Nvml::sm_clock(const std::string& gpu) const {
  const Functions& call = *functions_;
  if (call.by_uuid == nullptr || call.clock == nullptr || call.most_clock == nullptr) return std::nullopt;
  Handle handle = nullptr;
  unsigned now = 0;
  unsigned most = 0;
  if (call.by_uuid(gpu.c_str(), &handle) != 0 || call.clock(handle, multiprocessors, &now) != 0 ||
      call.most_clock(handle, multiprocessors, &most) != 0) {
    return std::nullopt;
  }
  return GpuClock::Reading{.mhz = static_cast<int>(now), .most_mhz = static_cast<int>(most)};
}

}  // namespace tandem::cuda
