// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_mail.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/host/host_elementwise.hpp"

namespace tandem {

namespace {

void join(const MailUse& use) noexcept {
  const std::size_t element = size_of(use.dtype);
  std::int64_t begin = 0;
  for (const void* const source : use.sources) {
    std::byte* const to = static_cast<std::byte*>(use.out) + static_cast<std::size_t>(begin) * element;
    const std::int64_t count = std::clamp(use.total - begin, std::int64_t{0}, use.count);
    if (to != source && count != 0) std::memcpy(to, source, static_cast<std::size_t>(count) * element);
    begin += use.pitch;
  }
}

}  // namespace

void write_letters(std::span<const Letter> letters) noexcept {
  for (const Letter& letter : letters) {
    auto* const mailbox = reinterpret_cast<std::byte*>(letter.put.theirs) + mail_offset;
    if (letter.bytes != 0) std::memcpy(mailbox, letter.message, letter.bytes);
  }
}

void use_mail(const MailUse& use) {
  if (use.joins) return join(use);
  reduce_now({.sources = use.sources,
              .destinations = std::span(&use.out, 1),
              .count = use.count,
              .dtype = use.dtype,
              .out_dtype = use.dtype});
}

}  // namespace tandem
