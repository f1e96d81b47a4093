// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_mail.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/host/host_elementwise.hpp"

namespace tandem {

namespace {

void put_in_place(const MailUse& use) noexcept {
  for (std::size_t i = 0; i < use.places.size(); ++i) {
    const auto& [to, bytes] = use.places[i];
    if (to != use.sources[i] && bytes != 0) std::memcpy(to, use.sources[i], bytes);
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
  if (!use.places.empty()) return put_in_place(use);
  reduce_now({.sources = use.sources,
              .destinations = std::span(&use.out, 1),
              .count = use.count,
              .dtype = use.dtype,
              .out_dtype = use.dtype});
}

}  // namespace tandem
