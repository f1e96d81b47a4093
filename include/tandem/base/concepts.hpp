// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace tandem {

// What a class is to those who hold one, asserted under its declaration.

/// It owns something: it moves, and there is one of it.
template <typename T>
concept Owner =
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_move_assignable_v<T> && std::is_nothrow_destructible_v<T>;

/// It refers to something that its copies share.
template <typename T>
concept Handle =
    std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_move_assignable_v<T> && std::is_nothrow_destructible_v<T>;

/// A value of bytes: for kernels, for other processes, and to pass by value.
template <typename T>
concept Plain = std::is_trivially_copyable_v<T>;

/// Others hold its address: it neither moves nor is copied. (Of an abstract class only assignment shows; its copy
/// constructor is deleted by hand.)
template <typename T>
concept Pinned = !std::is_move_constructible_v<T> && !std::is_move_assignable_v<T> && std::is_nothrow_destructible_v<T>;

}  // namespace tandem
