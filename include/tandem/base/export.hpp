// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks the symbols that libtandem.so exports; all others are hidden.
#define TANDEM_API __attribute__((visibility("default")))
