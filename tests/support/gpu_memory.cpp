// SPDX-License-Identifier: Apache-2.0
#include "support/gpu_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <sstream>
#include <string_view>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

namespace tandem::testing {
namespace {

// The driver allocates in granules of 2 MiB, and may keep a few for itself once a first process has used the GPU.
constexpr std::size_t drivers_own = std::size_t{16} << 20;

constexpr auto look_again_after = std::chrono::milliseconds(10);

/// Whether CUDA's multi-process service (MPS) was started for these tests: it is itself a process on each GPU.
bool has_service() { return std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr; }

/// The service starts on a GPU with its first client there, and stays.
void start_service() {
  static bool started = false;
  if (std::exchange(started, true)) return;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const int devices = device_count(DeviceType::cuda);
      for (int device = 0; device < devices; ++device) {
        static_cast<void>(open_device({DeviceType::cuda, device}));
      }
    } catch (const Error&) {  // the ranks will report it
    }
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

/// Whether CUDA_VISIBLE_DEVICES hides the GPU with this number and UUID. A list with names of any other form counts as
/// hiding none.
bool is_hidden(unsigned gpu, std::string_view uuid) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || *visible == '\0') return false;
  std::istringstream list(visible);
  bool found = false;
  for (std::string name; std::getline(list, name, ',');) {
    const bool is_number = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty() || !(is_number || name.starts_with("GPU-"))) return false;
    found = found || (is_number ? name == std::to_string(gpu) : uuid.starts_with(name));
  }
  return !found;
}

}  // namespace

/// An NVML session. The toolkit has no nvml.h; these prototypes are those since NVML 2 (for processes, since 11).
class GpuMemoryWatch::Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw Unsupported("libnvidia-ml.so.1 was not found");
    const auto start = function<int()>("nvmlInit_v2");
    if (const int error = start(); error != 0) throw Unsupported("NVML did not start: " + std::to_string(error));
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (const auto stop = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlShutdown")); stop != nullptr) stop();
  }

  [[nodiscard]] std::vector<Use> uses() const {
    unsigned gpus = 0;
    expect(function<int(unsigned*)>("nvmlDeviceGetCount_v2")(&gpus), "counting GPUs");
    std::vector<Use> uses;
    for (unsigned gpu = 0; gpu < gpus; ++gpu) {
      if (!is_hidden(gpu, uuid_of(gpu))) uses.push_back(use_of(gpu));
    }
    return uses;
  }
  /// The number in the name of its device file, /dev/nvidia0, …
  [[nodiscard]] unsigned file_of(unsigned gpu) const {
    unsigned number = 0;
    expect(function<int(void*, unsigned*)>("nvmlDeviceGetMinorNumber")(handle_of(gpu), &number), "asking for its file");
    return number;
  }

 private:
  struct Memory {
    unsigned long long total, free, used;
  };

  [[nodiscard]] void* handle_of(unsigned gpu) const {
    void* device = nullptr;
    expect(function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(gpu, &device), "opening a GPU");
    return device;
  }
  [[nodiscard]] std::string uuid_of(unsigned gpu) const {
    std::array<char, 96> uuid{};  // always enough, according to NVML's header
    expect(function<int(void*, char*, unsigned)>("nvmlDeviceGetUUID")(handle_of(gpu), uuid.data(), uuid.size()),
           "asking for its UUID");
    return uuid.data();
  }
  [[nodiscard]] Use use_of(unsigned gpu) const {
    void* const device = handle_of(gpu);
    Memory memory{};
    expect(function<int(void*, Memory*)>("nvmlDeviceGetMemoryInfo")(device, &memory), "looking at its memory");
    unsigned processes = 0;  // called with room for none, it returns how many there are
    constexpr int too_little_room = 7;
    const int error =
        function<int(void*, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3")(device, &processes, nullptr);
    if (error != too_little_room) expect(error, "looking at its processes");
    return {gpu, static_cast<std::size_t>(memory.used), static_cast<std::size_t>(memory.free), processes};
  }
  static void expect(int error, const char* what) {
    if (error != 0) throw Unsupported(std::string("NVML failed at ") + what + ": " + std::to_string(error));
  }
  template <typename Function> [[nodiscard]] Function* function(const char* name) const {
    auto* const found = reinterpret_cast<Function*>(dlsym(library_, name));
    if (found == nullptr) throw Unsupported(std::string("NVML is too old: it has no ") + name);
    return found;
  }

  void* library_;  // never closed: the driver's libraries do not support unloading
};

GpuMemoryWatch::GpuMemoryWatch() {
  try {
    const Nvml nvml;
    for (const Use& use : nvml.uses()) {
      const std::string file = "/dev/nvidia" + std::to_string(nvml.file_of(use.gpu));
      locks_.push_back(FileDescriptor::from_native_handle(::open(file.c_str(), O_RDONLY | O_CLOEXEC)));
      if (!locks_.back()) throw Unsupported(file + " cannot be opened");
      ::flock(locks_.back().get(), LOCK_SH);
    }
    note();
  } catch (const Unsupported& error) {
    why_blind_ = error.what();
  }
}

GpuMemoryWatch::~GpuMemoryWatch() {
  for (const FileDescriptor& lock : locks_) {
    if (lock) ::flock(lock.get(), LOCK_UN);  // explicitly, since forked children may still hold the descriptor
  }
}

void GpuMemoryWatch::note() {
  before_ = Nvml().uses();
  if (has_service() && std::ranges::any_of(before_, [](const Use& use) { return use.processes == 0; })) {
    start_service();
    before_ = Nvml().uses();
  }
  for (const Use& use : before_) {
    if (use.processes <= (has_service() ? 1U : 0U)) continue;
    why_blind_ = std::to_string(use.processes) + " processes are on GPU " + std::to_string(use.gpu) + " already";
  }
}

std::size_t GpuMemoryWatch::free_bytes() {
  try {
    const std::vector<Use> uses = Nvml().uses();
    const auto fullest = std::ranges::min_element(uses, {}, &Use::free_bytes);
    return fullest == uses.end() ? 0 : fullest->free_bytes;
  } catch (const Unsupported&) {
    return 0;
  }
}

std::string GpuMemoryWatch::left(std::chrono::milliseconds patience) const {
  if (!why_blind_.empty()) return {};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const Nvml nvml;
  while (true) {
    const auto is_ours = [](const FileDescriptor& lock) { return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0; };
    if (!std::ranges::all_of(locks_, is_ours)) return {};
    std::ostringstream text;
    for (const Use& now : nvml.uses()) {
      const auto then = std::ranges::find(before_, now.gpu, &Use::gpu);
      if (then == before_.end() || now.bytes <= then->bytes + drivers_own) continue;
      text << now.bytes - then->bytes << " bytes of GPU " << now.gpu << " are still in use, which has " << now.processes
           << " processes; ";
    }
    if (text.str().empty() || std::chrono::steady_clock::now() > deadline) return text.str();
    std::this_thread::sleep_for(look_again_after);
  }
}

}  // namespace tandem::testing
