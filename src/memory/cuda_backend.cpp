// SPDX-License-Identifier: Apache-2.0
#include "memory/cuda_backend.hpp"

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"
#include "memory/mapped.hpp"

namespace tandem {
namespace {

using cuda::Driver;

constexpr auto handle_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Identifies an allocation among all processes of a job. Sent with the descriptor, so that a process maps it once.
struct Description {
  std::uint64_t process;
  std::uint64_t serial;
  std::uint64_t bytes;

  friend auto operator<=>(const Description&, const Description&) = default;
};

/// A random number that identifies this process: pids are reused, and are not unique across containers.
std::uint64_t process_name() {
  static const std::uint64_t name = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 ^ random() ^ static_cast<std::uint64_t>(::getpid()) << 16;
  }();
  return name;
}

/// This process's reference to physical memory of a GPU, which lives until the last process releases its reference.
class Allocation {
 public:
  explicit Allocation(CUmemGenericAllocationHandle handle) noexcept : handle_(handle) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { static_cast<void>(Driver::get().cuMemRelease(handle_)); }

  [[nodiscard]] CUmemGenericAllocationHandle handle() const noexcept { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_;
};

/// The driver's addresses are integers, ours are pointers.
std::byte* pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Reserved addresses, to which a Window maps memory.
class AddressRange {
 public:
  explicit AddressRange(std::size_t bytes) : bytes_(bytes) {
    const Driver& driver = Driver::get();
    driver.check(driver.cuMemAddressReserve(&address_, bytes, 0, 0, 0), "cuMemAddressReserve");
  }
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange() { static_cast<void>(Driver::get().cuMemAddressFree(address_, bytes_)); }

  [[nodiscard]] CUdeviceptr address() const noexcept { return address_; }
  [[nodiscard]] std::byte* data() const noexcept { return pointer(address_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  CUdeviceptr address_ = 0;
  std::size_t bytes_;
};

/// An allocation mapped at an address. The range must outlive it.
class Window {
 public:
  Window(std::shared_ptr<const Allocation> allocation, CUdeviceptr address, std::size_t bytes)
      : allocation_(std::move(allocation)), address_(address), bytes_(bytes) {
    const Driver& driver = Driver::get();
    driver.check(driver.cuMemMap(address, bytes, 0, allocation_->handle(), 0), "cuMemMap");
  }
  Window(Window&& other) noexcept
      : allocation_(std::move(other.allocation_)), address_(other.address_), bytes_(std::exchange(other.bytes_, 0)) {}
  Window& operator=(Window&&) = delete;
  ~Window() {
    if (bytes_ != 0) static_cast<void>(Driver::get().cuMemUnmap(address_, bytes_));
  }

  /// Lets the kernels and copy engines of a GPU read and write here. Throws Unsupported if it cannot access the memory.
  void open_to(int device) const {
    const Driver& driver = Driver::get();
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult result = driver.cuMemSetAccess(address_, bytes_, &access, 1);
    if (result == CUDA_ERROR_INVALID_DEVICE || result == CUDA_ERROR_NOT_SUPPORTED ||
        result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) {
      const char* text = nullptr;
      static_cast<void>(driver.cuGetErrorString(result, &text));
      throw Unsupported(
          format("cuda:{} does not reach the memory of a peer's GPU, neither over NVLink nor over PCIe: {}", device,
                 text == nullptr ? "unknown error" : text));
    }
    driver.check(result, "cuMemSetAccess");
  }

 private:
  std::shared_ptr<const Allocation> allocation_;
  CUdeviceptr address_;
  std::size_t bytes_;
};

/// An allocation and its address in this process, where it was mapped by this class or, if adopted, by its owner.
class Memory {
 public:
  /// `imported` memory is a peer's, and cannot be shared again.
  Memory(std::shared_ptr<const Allocation> allocation, std::size_t bytes, const Description& description, bool imported)
      : allocation_(std::move(allocation)),
        description_(description),
        bytes_(bytes),
        imported_(imported),
        range_(std::make_unique<AddressRange>(bytes)),
        window_(std::make_unique<Window>(allocation_, range_->address(), bytes)),
        data_(range_->data()) {}
  /// Adopted memory, which other code has mapped at `data` and will unmap.
  Memory(std::shared_ptr<const Allocation> allocation, std::byte* data, std::size_t bytes,
         const Description& description)
      : allocation_(std::move(allocation)), description_(description), bytes_(bytes), imported_(false), data_(data) {}

  [[nodiscard]] const std::shared_ptr<const Allocation>& allocation() const noexcept { return allocation_; }
  [[nodiscard]] const Description& description() const noexcept { return description_; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool is_imported() const noexcept { return imported_; }
  [[nodiscard]] bool holds(const std::byte* data, std::size_t bytes) const noexcept {
    return data >= data_ && bytes <= bytes_ && static_cast<std::size_t>(data - data_) <= bytes_ - bytes;
  }

  /// Ranks that are threads of one process share this mapping, so each adds access for its GPU.
  void open_to(int device) {
    const std::scoped_lock lock(mutex_);
    if (window_ == nullptr || open_to_.contains(device)) return;
    window_->open_to(device);
    open_to_.insert(device);
  }

 private:
  // Destroyed in reverse order: first unmapped, then the addresses freed, then the allocation released.
  std::shared_ptr<const Allocation> allocation_;
  Description description_;
  std::size_t bytes_;
  bool imported_;
  std::unique_ptr<AddressRange> range_;
  std::unique_ptr<Window> window_;
  std::byte* data_;
  std::mutex mutex_;
  std::set<int> open_to_;
};

/// The allocations that this process has mapped.
Mapped<Description, Memory>& mapped() {
  // Never destroyed: destructors of other static objects may still use it.
  static auto& table = *new Mapped<Description, Memory>;
  return table;
}

class CudaSegment final : public Segment {
 public:
  explicit CudaSegment(std::shared_ptr<Memory> memory)
      : Segment(memory->data(), memory->bytes()), memory_(std::move(memory)) {}

  [[nodiscard]] Parcel share() const override {
    const Driver& driver = Driver::get();
    int fd = -1;
    driver.check(driver.cuMemExportToShareableHandle(&fd, memory_->allocation()->handle(), handle_type, 0),
                 "cuMemExportToShareableHandle");
    Parcel parcel;
    parcel.descriptors.push_back(FileDescriptor::from_native_handle(fd));
    static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));  // a child program must not keep the memory alive
    parcel.bytes.resize(sizeof(Description));
    std::memcpy(parcel.bytes.data(), &memory_->description(), sizeof(Description));
    return parcel;
  }

 private:
  std::shared_ptr<Memory> memory_;
};

class CudaMapping final : public Mapping {
 public:
  explicit CudaMapping(std::shared_ptr<Memory> memory)
      : Mapping(memory->data(), memory->bytes()), memory_(std::move(memory)) {}

  [[nodiscard]] const std::shared_ptr<const Allocation>& allocation() const noexcept { return memory_->allocation(); }

 private:
  std::shared_ptr<Memory> memory_;
};

/// Several allocations, mapped a second time, into one range.
class SideBySide final : public Mapping {
 public:
  explicit SideBySide(std::unique_ptr<AddressRange> range)
      : Mapping(range->data(), range->bytes()), range_(std::move(range)) {}

  void add(const std::shared_ptr<const Allocation>& allocation, std::size_t offset, std::size_t bytes, int device) {
    windows_.emplace_back(allocation, range_->address() + offset, bytes).open_to(device);
  }

 private:
  std::unique_ptr<AddressRange> range_;
  std::vector<Window> windows_;
};

class CudaBackend final : public MemoryBackend {
 public:
  explicit CudaBackend(std::shared_ptr<Device> device) : device_(std::move(device)), context_(device_->id().index) {
    const Driver& driver = Driver::get();
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.requestedHandleTypes = handle_type;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_->id().index};
    driver.check(driver.cuMemGetAllocationGranularity(&granularity_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity");
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::size_t granularity() const override { return granularity_; }

  [[nodiscard]] std::shared_ptr<Segment> allocate(std::size_t bytes) override {
    const Driver& driver = Driver::get();
    const cuda::CurrentContext current(context_);
    const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), granularity_);
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = driver.cuMemCreate(&handle, rounded, &properties_, 0);
    std::size_t memory_bytes = 0;
    // For more than the GPU has, the driver may also return other errors.
    const bool too_much =
        result == CUDA_ERROR_OUT_OF_MEMORY ||
        (result != CUDA_SUCCESS && driver.cuDeviceTotalMem(&memory_bytes, device_->id().index) == CUDA_SUCCESS &&
         rounded > memory_bytes);
    if (too_much) {
      throw OutOfMemory(format("{} bytes of symmetric memory on {}: cuMemCreate of {} bytes found no room", bytes,
                               to_string(device_->id()), rounded));
    }
    driver.check(result, "cuMemCreate");
    const Description description = describe(rounded);
    auto memory = std::make_shared<Memory>(std::make_shared<const Allocation>(handle), rounded, description, false);
    memory->open_to(device_->id().index);
    const Stream stream(*device_);
    device_->fill(stream, memory->data(), std::byte{0}, rounded);
    stream.synchronize();
    return std::make_shared<CudaSegment>(mapped().insert(description, std::move(memory)));
  }

  [[nodiscard]] std::shared_ptr<Segment> adopt(void* data, std::size_t bytes) override {
    const cuda::CurrentContext current(context_);
    auto* begin = static_cast<std::byte*>(data);
    if (auto memory = mapped().find(begin, bytes)) {
      if (memory->is_imported()) {
        throw Unsupported(format("{} bytes at {} are a peer's memory; only its owner can share it", bytes, data));
      }
      return std::make_shared<CudaSegment>(std::move(memory));
    }
    const auto refuse = [&](const std::string& reason) {
      return Unsupported(
          format("{} bytes at {} are not memory that peers can map: {}; allocate with SymmetricTensor::empty or "
                 "SymmetricMemory::allocate, or by cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
                 bytes, data, reason));
    };
    const Driver& driver = Driver::get();
    CUmemGenericAllocationHandle handle = 0;
    if (driver.cuMemRetainAllocationHandle(&handle, data) != CUDA_SUCCESS) {
      throw refuse("they were not allocated through CUDA's VMM (cudaMalloc's and malloc's are private)");
    }
    const auto allocation = std::make_shared<const Allocation>(handle);
    CUmemAllocationProp properties{};
    driver.check(driver.cuMemGetAllocationPropertiesFromHandle(&properties, handle),
                 "cuMemGetAllocationPropertiesFromHandle");
    if ((properties.requestedHandleTypes & handle_type) == 0) {
      throw refuse("they were allocated without a file descriptor to share them by");
    }
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != device_->id().index) {
      throw refuse(format("they are not on {}", to_string(device_->id())));
    }
    CUdeviceptr base = 0;
    std::size_t mapped_bytes = 0;
    driver.check(driver.cuMemGetAddressRange(&base, &mapped_bytes, reinterpret_cast<CUdeviceptr>(data)),
                 "cuMemGetAddressRange");
    // Not added to the table: its owner may unmap it and map other memory there, unnoticed.
    auto memory = std::make_shared<Memory>(allocation, pointer(base), mapped_bytes, describe(mapped_bytes));
    if (!memory->holds(begin, bytes)) throw refuse("they span more than one allocation");
    return std::make_shared<CudaSegment>(std::move(memory));
  }

  [[nodiscard]] std::shared_ptr<Mapping> map(Parcel parcel) override {
    Description description{};
    if (parcel.bytes.size() != sizeof(description) || parcel.descriptors.size() != 1) {
      throw InvalidArgument(format("a CUDA segment is described by {} bytes and one descriptor; {} bytes and {} came",
                                   sizeof(description), parcel.bytes.size(), parcel.descriptors.size()));
    }
    std::memcpy(&description, parcel.bytes.data(), sizeof(description));
    const cuda::CurrentContext current(context_);
    auto memory = mapped().find(description);
    if (memory == nullptr) {
      const Driver& driver = Driver::get();
      CUmemGenericAllocationHandle handle = 0;
      // The driver takes the descriptor's number in place of a pointer, and does not take ownership of it.
      const auto number = static_cast<std::intptr_t>(parcel.descriptors[0].get());
      void* descriptor = reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
      driver.check(driver.cuMemImportFromShareableHandle(&handle, descriptor, handle_type),
                   "cuMemImportFromShareableHandle");
      memory = mapped().insert(
          description, std::make_shared<Memory>(std::make_shared<const Allocation>(handle),
                                                static_cast<std::size_t>(description.bytes), description, true));
    }
    memory->open_to(device_->id().index);
    return std::make_shared<CudaMapping>(std::move(memory));
  }

  [[nodiscard]] std::shared_ptr<Mapping> map_side_by_side(std::span<const std::shared_ptr<Mapping>> parts) override {
    std::size_t stride = 0;
    for (const auto& part : parts) stride = std::max(stride, part->bytes());
    const cuda::CurrentContext current(context_);
    auto result = std::make_shared<SideBySide>(std::make_unique<AddressRange>(checked_mul(stride, parts.size())));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto* part = dynamic_cast<const CudaMapping*>(parts[i].get());
      if (part == nullptr) {
        throw InvalidArgument(format("part {} of {} is not a mapping of a CUDA segment", i, parts.size()));
      }
      result->add(part->allocation(), i * stride, part->bytes(), device_->id().index);
    }
    return result;
  }

 private:
  [[nodiscard]] static Description describe(std::size_t bytes) {
    static std::atomic<std::uint64_t> serial{0};
    return {process_name(), ++serial, static_cast<std::uint64_t>(bytes)};
  }

  std::shared_ptr<Device> device_;
  cuda::Context context_;
  CUmemAllocationProp properties_{};
  std::size_t granularity_ = 0;
};

}  // namespace

std::string why_no_cuda_backend(const Device& device) {
  const Driver& driver = Driver::get();
  CUdevice handle = 0;
  driver.check(driver.cuDeviceGet(&handle, device.id().index), "cuDeviceGet");
  const auto has = [&](CUdevice_attribute attribute) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, attribute, handle), "cuDeviceGetAttribute");
    return value != 0;
  };
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return format("{} has no virtual memory management", to_string(device.id()));
  }
  if (!has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    return format("{} cannot share memory by file descriptors", to_string(device.id()));
  }
  return {};
}

std::shared_ptr<MemoryBackend> open_cuda_backend(std::shared_ptr<Device> device) {
  return std::make_shared<CudaBackend>(std::move(device));
}

}  // namespace tandem
