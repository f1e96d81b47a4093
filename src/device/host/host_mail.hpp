// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/device/mail.hpp"

namespace tandem {

// What `Device::mail` does on the host before its signals go (see signal_letters) and after they have come, on the
// calling thread.

void write_letters(std::span<const Letter> letters) noexcept;
void use_mail(const MailUse& use);

}  // namespace tandem
