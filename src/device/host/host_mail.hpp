// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/mail.hpp"

namespace tandem {

// The parts of `Device::mail` on the host, on the calling thread: before it puts its signals (see signal_letters), and
// after the peers' signals have arrived.

void write_letters(std::span<const Letter> letters) noexcept;
void use_mail(const MailUse& use);

}  // namespace tandem
