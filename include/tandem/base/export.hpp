// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what libtandem.so shows; everything else is hidden.
#define TANDEM_API __attribute__((visibility("default")))
