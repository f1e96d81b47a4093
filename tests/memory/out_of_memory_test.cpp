// SPDX-License-Identifier: Apache-2.0
// Destructors that cannot allocate memory: they have nobody to report it to, so they must succeed without.
#include <cstddef>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <optional>

#include "tandem/device/buffer.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "support/ranks.hpp"
#include "team/reclaimed.hpp"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which replace these operators themselves

namespace {

thread_local bool no_memory = false;

class NoMemory {
 public:
  NoMemory() { no_memory = true; }
  ~NoMemory() { no_memory = false; }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace

// These replace the C++ library's, in libtandem as well.
__attribute__((noinline, visibility("default"))) void* operator new(std::size_t bytes) {
  void* const memory = no_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline, visibility("default"))) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline, visibility("default"))) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace tandem {
namespace {

TEST(SymmetricMemoryOutOfMemory, GoesWithoutMemoryForTheList) {
  testing::run_ranks(2, [](World& world) {
    {
      const Team team = world.team({0, 1});
      std::optional<SymmetricMemory> memory(SymmetricMemory::allocate(team, 1000));
      memory->rendezvous();
      std::optional<Reclaimed<Buffer>> buffer(std::in_place, team,
                                              std::make_shared<Buffer>(team.shared_device(), 1000));
      const NoMemory none;
      EXPECT_THROW(static_cast<void>(::operator new(1)), std::bad_alloc);
      memory.reset();
      buffer.reset();
    }
    world.team().barrier();
  });
}

TEST(SymmetricMemoryOutOfMemory, ATeamsLastHandleGoesWithoutMemory) {
  testing::run_ranks(2, [](World& world) {
    std::optional<Team> team(world.team({1, 0}));
    team->barrier();
    {
      const NoMemory none;
      team.reset();
    }
    world.team({0, 1}).barrier();
  });
}

}  // namespace
}  // namespace tandem

#endif
