# SPDX-License-Identifier: Apache-2.0
"""The tensors of the transformer layer, as examples/transformer_layer/values.hpp generates them.

Tensors are numbered: 3 * part + 0 for x, 1 for the weight, 2 for dy.
"""

import struct

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB


def random_bits(key, place):
    """64 bits (SplitMix64) that depend only on the key and the place."""
    x = (key + (place + 1) * GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * FIRST) & MASK
    x = ((x ^ (x >> 27)) * SECOND) & MASK
    return x ^ (x >> 31)


def key_of(seed, tensor):
    return random_bits(seed, tensor)


def value_at(key, place):
    """In [-1, 1): 17 random bits, truncated to the 8 significant bits of bf16."""
    value = ((random_bits(key, place) >> 47) - (1 << 16)) / (1 << 16)
    bits = struct.unpack("<I", struct.pack("<f", value))[0] & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def block(torch, key, columns, rows, own_columns, dtype, device):
    """Rows [begin, end) and columns [begin, end) of the tensor with this key, which has `columns` columns in total."""

    def signed(x):
        return x - (1 << 64) if x >= 1 << 63 else x

    def shifted(x, bits):  # a logical shift
        return (x >> bits) & ((1 << (64 - bits)) - 1)

    out = torch.empty(rows[1] - rows[0], own_columns[1] - own_columns[0], dtype=dtype, device=device)
    if out.numel() == 0:
        return out
    width = torch.arange(own_columns[0], own_columns[1], dtype=torch.int64, device=device)
    step = max(1, (1 << 24) // out.shape[1])  # the 64-bit intermediates need memory
    for first in range(0, out.shape[0], step):
        some = torch.arange(rows[0] + first, min(rows[0] + first + step, rows[1]), dtype=torch.int64, device=device)
        x = (some[:, None] * columns + width[None, :] + 1) * signed(GOLDEN) + signed(key)  # int64 wraps as uint64 does
        x = (x ^ shifted(x, 30)) * signed(FIRST)
        x = (x ^ shifted(x, 27)) * signed(SECOND)
        x = x ^ shifted(x, 31)
        value = (shifted(x, 47) - (1 << 16)).to(torch.float32) * 2.0 ** -16
        cut = (value.view(torch.int32) & -0x10000).view(torch.float32)
        out[first:first + step] = cut.to(dtype)
    return out
