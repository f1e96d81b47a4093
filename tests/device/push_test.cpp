// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/push.hpp"

#include <gtest/gtest.h>
#include <vector>

#include "device/with_control.hpp"

namespace tandem::testing {
namespace {

class PushTest : public WithControl {};

// Two ranks' words on one device: a reader that waits for one signal at a time finds the data pushed with it.
TEST_P(PushTest, ASignalComesWithItsCopy) {
  constexpr std::size_t count = 300;  // more than one segment of a host stream's queue holds
  constexpr std::size_t bytes = 37;
  const std::vector<std::byte> data = random_bytes(count * bytes);
  const Buffer source = upload(data);
  const Buffer target = upload(std::vector<std::byte>(data.size()));
  const Buffer seen = upload(std::vector<std::byte>(data.size()));
  const Buffer pads = upload(std::vector<SignalWord>(4));
  SignalWord* const words = pads.data_as<SignalWord>();
  const auto place = [](const Buffer& buffer, std::size_t i) { return buffer.data_as<std::byte>() + i * bytes; };

  std::vector<Push> pushes;
  for (std::size_t i = 0; i < count; ++i) {
    SignalWord* const channel = words + 2 * (i % 2);  // alternates, as for two readers or two channels
    pushes.push_back({.copy = {.dst = place(target, i), .src = place(source, i), .bytes = bytes, .path = Path::link},
                      .put = {.mine = channel, .theirs = channel + 1}});
  }
  const Stream writer(device());
  const Stream reader(device());
  device().push(writer, {});
  device().push(writer, pushes);
  for (std::size_t i = 0; i < count; ++i) {
    const SignalWait wait{.word = words + 2 * (i % 2) + 1};
    device().wait(reader, {&wait, 1}, control_);
    device().copy(reader, {.dst = place(seen, i), .src = place(target, i), .bytes = bytes});
  }
  writer.synchronize();
  reader.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  EXPECT_EQ(download<std::byte>(seen), data);
  const auto after = download<SignalWord>(pads);
  for (const std::size_t channel : {0U, 2U}) {
    EXPECT_EQ(after[channel].put, count / 2);
    EXPECT_EQ(after[channel + 1].value, count / 2);
  }
}

TANDEM_ON_EACH_DEVICE(PushTest);

}  // namespace
}  // namespace tandem::testing
