// SPDX-License-Identifier: Apache-2.0
#include "memory/host_backend.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "memory/mapped.hpp"
#include "memory/memory_left.hpp"
#include "team/shared_memory.hpp"
#include "team/socket.hpp"

namespace tandem {
namespace {

/// Identifies a memfd within a machine, by its inode. Sent with the descriptor.
struct Description {
  std::uint64_t device;
  std::uint64_t inode;
  std::uint64_t bytes;

  friend auto operator<=>(const Description&, const Description&) = default;
};

Description describe(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw Error(format("fstat of a shared segment failed: {}", std::strerror(errno)));
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size)};
}

/// The memfds that this process has mapped.
Mapped<Description, SharedMemory>& mapped() {
  // Never destroyed: a static object's destructor may still allocate.
  static auto& table = *new Mapped<Description, SharedMemory>;
  return table;
}

class HostSegment final : public Segment {
 public:
  explicit HostSegment(std::shared_ptr<SharedMemory> memory)
      : Segment(memory->data(), memory->bytes()), memory_(std::move(memory)) {}

  [[nodiscard]] Parcel share() const override {
    const Description description = describe(memory_->descriptor().get());
    Parcel parcel;
    parcel.bytes.resize(sizeof(description));
    std::memcpy(parcel.bytes.data(), &description, sizeof(description));
    parcel.descriptors.push_back(duplicate(memory_->descriptor()));
    return parcel;
  }

 private:
  std::shared_ptr<SharedMemory> memory_;
};

class HostMapping final : public Mapping {
 public:
  explicit HostMapping(std::shared_ptr<SharedMemory> memory)
      : Mapping(memory->data(), memory->bytes()), memory_(std::move(memory)) {}

 private:
  std::shared_ptr<SharedMemory> memory_;
};

/// Several memfds, mapped a second time, into one reserved range.
class SideBySide final : public Mapping {
 public:
  SideBySide(std::span<const std::shared_ptr<Mapping>> parts, std::byte* data, std::size_t bytes)
      : Mapping(data, bytes), parts_(parts.begin(), parts.end()) {}
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;
  ~SideBySide() override { ::munmap(data(), bytes()); }

 private:
  std::vector<std::shared_ptr<Mapping>> parts_;
};

class HostBackend final : public MemoryBackend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "host"; }
  [[nodiscard]] std::size_t granularity() const override { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

  [[nodiscard]] std::shared_ptr<Segment> allocate(std::size_t bytes) override {
    const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), granularity());
    // When no pages are left, the kernel kills processes, not only this one. Other ranks of the machine may be taking
    // theirs: so this is asked for each block of pages, and blocks get smaller as less is left.
    const auto next_block = [bytes, rounded](std::size_t needed) {
      constexpr std::size_t smallest = std::size_t{2} << 20;
      constexpr std::size_t largest = std::size_t{64} << 20;
      const MemoryLeft left = memory_left();
      if (needed <= left.bytes) return std::clamp(left.bytes / 64 / smallest * smallest, smallest, largest);
      throw OutOfMemory(format("{} bytes of shared host memory were asked for; {} has {} left{}", bytes, left.where,
                               left.bytes, needed < rounded ? format(", after {} were taken", rounded - needed) : ""));
    };
    auto memory = std::make_shared<SharedMemory>(rounded, next_block);
    const Description description = describe(memory->descriptor().get());
    return std::make_shared<HostSegment>(mapped().insert(description, std::move(memory)));
  }

  [[nodiscard]] std::shared_ptr<Segment> adopt(void* data, std::size_t bytes) override {
    auto memory = mapped().find(static_cast<const std::byte*>(data), bytes);
    if (memory == nullptr) {
      throw Unsupported(
          format("{} bytes at {} are not memory that peers can map (malloc's is private to its process); allocate "
                 "with SymmetricTensor::empty or SymmetricMemory::allocate",
                 bytes, data));
    }
    if (!memory->descriptor()) {
      throw Unsupported(
          format("{} bytes at {} are a peer's memory, which only the rank that allocated it can share; each rank wraps "
                 "its own, from SymmetricTensor::empty or SymmetricMemory::allocate",
                 bytes, data));
    }
    return std::make_shared<HostSegment>(std::move(memory));
  }

  [[nodiscard]] std::shared_ptr<Mapping> map(Parcel parcel) override {
    Description description{};
    if (parcel.bytes.size() != sizeof(description) || parcel.descriptors.size() != 1) {
      throw InvalidArgument(format("a host segment is described by {} bytes and one descriptor; {} bytes and {} came",
                                   sizeof(description), parcel.bytes.size(), parcel.descriptors.size()));
    }
    std::memcpy(&description, parcel.bytes.data(), sizeof(description));
    if (describe(parcel.descriptors[0].get()) != description) {
      throw InvalidArgument("the descriptor that came with a host segment is not the one that its description names");
    }
    if (auto memory = mapped().find(description)) return std::make_shared<HostMapping>(std::move(memory));
    auto memory = std::make_shared<SharedMemory>(parcel.descriptors[0], static_cast<std::size_t>(description.bytes),
                                                 SharedMemory::Access::write);
    return std::make_shared<HostMapping>(mapped().insert(description, std::move(memory)));
  }

  [[nodiscard]] std::shared_ptr<Mapping> map_side_by_side(std::span<const std::shared_ptr<Mapping>> parts) override {
    std::size_t stride = 0;
    for (const auto& part : parts) stride = std::max(stride, part->bytes());
    const std::size_t bytes = stride * parts.size();
    void* range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
      throw OutOfMemory(format("reserving {} bytes of addresses failed: {}", bytes, std::strerror(errno)));
    }
    auto* base = static_cast<std::byte*>(range);
    auto result = std::make_shared<SideBySide>(parts, base, bytes);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      // With an old size of 0, mremap maps the same shared pages a second time and leaves the first mapping unchanged.
      if (::mremap(parts[i]->data(), 0, parts[i]->bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, base + i * stride) ==
          MAP_FAILED) {
        throw OutOfMemory(
            format("mapping part {} of {} side by side failed: {}", i, parts.size(), std::strerror(errno)));
      }
    }
    return result;
  }
};

}  // namespace

std::shared_ptr<MemoryBackend> open_host_backend() { return std::make_shared<HostBackend>(); }

}  // namespace tandem
