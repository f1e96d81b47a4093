// SPDX-License-Identifier: Apache-2.0
#include "collective/copy_batch.hpp"

#include <algorithm>

namespace tandem {

void CopyBatch::add(void* to, const void* from, std::size_t bytes, Path path, std::size_t part_of) {
  if (bytes == 0 || to == from) return;
  if (!copies_.empty()) {
    Copy& last = copies_.back();
    if (last.rows == 1 && static_cast<std::byte*>(last.dst) + last.bytes == to &&
        static_cast<const std::byte*>(last.src) + last.bytes == from && last.path == path && last.part_of == part_of) {
      last.bytes += bytes;
      return;
    }
  }
  copies_.push_back({.dst = to, .src = from, .bytes = bytes, .path = path, .part_of = part_of});
}

void CopyBatch::add(Rows to, Rows from, std::size_t bytes, Path path, std::size_t part_of) {
  while (bytes != 0) {
    const std::size_t row = std::min({to.left_in_row(), from.left_in_row(), bytes});
    const std::size_t rows = to.steps_by(row) && from.steps_by(row) ? bytes / row : 1;
    if (rows == 1) {
      add(to.address(), from.address(), row, path, part_of);
    } else if (to.address() != from.address()) {
      copies_.push_back({.dst = to.address(),
                         .src = from.address(),
                         .bytes = row,
                         .rows = rows,
                         .dst_pitch = to.pitch(row),
                         .src_pitch = from.pitch(row),
                         .path = path,
                         .part_of = part_of});
    }
    to = to + row * rows;
    from = from + row * rows;
    bytes -= row * rows;
  }
}

}  // namespace tandem
