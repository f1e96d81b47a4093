// SPDX-License-Identifier: Apache-2.0
#include "device/host/packed_weights.hpp"

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif

// Older versions lack functions that are used here; newer ones may have changed them.
#if defined(DNNL_VERSION_MAJOR) && (DNNL_VERSION_MAJOR == 3 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR >= 6))

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/host/onednn.hpp"
#include "device/host/workspace.hpp"

namespace tandem {

namespace {

// Distinct m per thread: a plan's runs use few; beyond this many, GEMMs with a new m use unpacked weights.
constexpr std::size_t most_products = 32;

/// The layout of the packed weights.
enum class Order {
  blocked,  ///< that of oneDNN's blocked kernels, which need AVX-512
  padded,   ///< op(B) row by row, for the kernels that `dnnl_sgemm` calls; the stride is no multiple of 2 KiB
};

constexpr std::string_view kernels_of(Order order) noexcept { return order == Order::blocked ? "brg" : "gemm"; }

constexpr std::int64_t vector = 16;
// Rows whose stride is a multiple of this many elements map to the same few cache sets.
constexpr std::int64_t colliding = 2048 / sizeof(float);
// A single GEMM of fewer rows takes no longer than packing the weights.
constexpr std::int64_t fewest_rows_to_pack_for = 64;

constexpr std::int64_t padded_row(std::int64_t n) noexcept {
  const std::int64_t whole = (n + vector - 1) / vector * vector;
  return whole % colliding == 0 ? whole + vector : whole;
}

// Blocked: two or three GEMMs of more rows are no slower if each packs its weights, nor are four or five of half as
// many rows if the weights exceed the cache; weights already packed serve any number of rows. But if n or k is not a
// multiple of the vector, packing is the slow part of a GEMM of any number of rows. Measured on a Xeon with 2 MiB of
// L2. Padded: packing takes as long as a GEMM of some 50 rows; for more rows than this `dnnl_sgemm` has other kernels.
constexpr std::int64_t most_rows_to_pack_for(Order order, std::int64_t n, std::int64_t k) noexcept {
  if (order == Order::padded) return PackedWeights::most_padded_rows;
  constexpr std::int64_t cached = 2 << 20;
  if (n % vector != 0 || k % vector != 0) return 4096;
  return n * k * static_cast<std::int64_t>(sizeof(float)) > cached ? 192 : 512;
}

// The functions of oneDNN that are used: types from its headers, addresses from the library that OneDnn found.
struct Api {
  decltype(&dnnl_engine_create) engine_create;
  decltype(&dnnl_stream_create) stream_create;
  decltype(&dnnl_stream_wait) stream_wait;
  decltype(&dnnl_stream_destroy) stream_destroy;
  decltype(&dnnl_primitive_attr_create) attr_create;
  decltype(&dnnl_primitive_attr_set_scratchpad_mode) attr_set_scratchpad_mode;
  decltype(&dnnl_primitive_attr_set_fpmath_mode) attr_set_fpmath_mode;
  decltype(&dnnl_primitive_attr_destroy) attr_destroy;
  decltype(&dnnl_reorder_primitive_desc_create) reorder_desc_create;
  decltype(&dnnl_primitive_desc_query) primitive_desc_query;
  decltype(&dnnl_primitive_desc_query_md) primitive_desc_query_md;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy;
  decltype(&dnnl_primitive_create) primitive_create;
  decltype(&dnnl_primitive_execute) primitive_execute;
  decltype(&dnnl_primitive_destroy) primitive_destroy;
  decltype(&dnnl_memory_desc_get_size) memory_desc_get_size;
  decltype(&dnnl_memory_create) memory_create;
  decltype(&dnnl_memory_set_data_handle) memory_set_data_handle;
  decltype(&dnnl_memory_destroy) memory_destroy;
#if DNNL_VERSION_MAJOR == 2
  decltype(&dnnl_memory_desc_init_by_strides) memory_desc_init_by_strides;
  decltype(&dnnl_memory_desc_init_by_tag) memory_desc_init_by_tag;
  decltype(&dnnl_matmul_desc_init) matmul_desc_init;
  decltype(&dnnl_primitive_desc_create) primitive_desc_create;
#else
  decltype(&dnnl_memory_desc_create_with_strides) memory_desc_create_with_strides;
  decltype(&dnnl_memory_desc_create_with_tag) memory_desc_create_with_tag;
  decltype(&dnnl_memory_desc_destroy) memory_desc_destroy;
  decltype(&dnnl_matmul_primitive_desc_create) matmul_desc_create;
#endif
  dnnl_engine_t engine = nullptr;  // one per process; never destroyed, since the library is never unloaded

  // False if the library is older than the headers, has another major version, or lacks a function.
  bool find(const OneDnn& library) {
    const auto get = [&library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.address_of(name));
      return function != nullptr;
    };
    return library.has_api_of(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR) && get(engine_create, "dnnl_engine_create") &&
           get(stream_create, "dnnl_stream_create") && get(stream_wait, "dnnl_stream_wait") &&
           get(stream_destroy, "dnnl_stream_destroy") && get(attr_create, "dnnl_primitive_attr_create") &&
           get(attr_set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode") &&
           get(attr_set_fpmath_mode, "dnnl_primitive_attr_set_fpmath_mode") &&
           get(attr_destroy, "dnnl_primitive_attr_destroy") &&
           get(reorder_desc_create, "dnnl_reorder_primitive_desc_create") &&
           get(primitive_desc_query, "dnnl_primitive_desc_query") &&
           get(primitive_desc_query_md, "dnnl_primitive_desc_query_md") &&
           get(primitive_desc_destroy, "dnnl_primitive_desc_destroy") &&
           get(primitive_create, "dnnl_primitive_create") && get(primitive_execute, "dnnl_primitive_execute") &&
           get(primitive_destroy, "dnnl_primitive_destroy") && get(memory_desc_get_size, "dnnl_memory_desc_get_size") &&
           get(memory_create, "dnnl_memory_create") && get(memory_set_data_handle, "dnnl_memory_set_data_handle") &&
           get(memory_destroy, "dnnl_memory_destroy") &&
#if DNNL_VERSION_MAJOR == 2
           get(memory_desc_init_by_strides, "dnnl_memory_desc_init_by_strides") &&
           get(memory_desc_init_by_tag, "dnnl_memory_desc_init_by_tag") &&
           get(matmul_desc_init, "dnnl_matmul_desc_init") && get(primitive_desc_create, "dnnl_primitive_desc_create");
#else
           get(memory_desc_create_with_strides, "dnnl_memory_desc_create_with_strides") &&
           get(memory_desc_create_with_tag, "dnnl_memory_desc_create_with_tag") &&
           get(memory_desc_destroy, "dnnl_memory_desc_destroy") &&
           get(matmul_desc_create, "dnnl_matmul_primitive_desc_create");
#endif
  }
};

const Api* load_api() noexcept {
  static const Api* const result = []() -> const Api* {
    static Api api;
    const OneDnn* const library = OneDnn::load();
    if (library == nullptr || !api.find(*library)) return nullptr;
    const OneDnn::OneThread one_thread(*library);
    return api.engine_create(&api.engine, dnnl_cpu, 0) == dnnl_success ? &api : nullptr;
  }();
  return result;
}

// Only for objects that exist only if load_api() has returned an API.
const Api& api() noexcept { return *load_api(); }

void check_status(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw DeviceError(
      format("{}: {} for packed weights gave status {}", OneDnn::load()->name(), what, static_cast<int>(status)));
}

using Queue = std::remove_pointer_t<dnnl_stream_t>;
using Attributes = std::remove_pointer_t<dnnl_primitive_attr_t>;
using Description = std::remove_pointer_t<dnnl_primitive_desc_t>;
using Primitive = std::remove_pointer_t<dnnl_primitive_t>;
using Memory = std::remove_pointer_t<dnnl_memory_t>;

struct Destroy {
  void operator()(Queue* queue) const noexcept { api().stream_destroy(queue); }
  void operator()(Attributes* attributes) const noexcept { api().attr_destroy(attributes); }
  void operator()(Description* description) const noexcept { api().primitive_desc_destroy(description); }
  void operator()(Primitive* primitive) const noexcept { api().primitive_destroy(primitive); }
  void operator()(Memory* memory) const noexcept { api().memory_destroy(memory); }
#if DNNL_VERSION_MAJOR == 3
  void operator()(std::remove_pointer_t<dnnl_memory_desc_t>* layout) const noexcept {
    api().memory_desc_destroy(layout);
  }
#endif
};
template <typename T> using Owned = std::unique_ptr<T, Destroy>;

/// A pointer to a matrix's layout, as both versions take it: the caller's struct in 2.x, the library's object in 3.x.
using LayoutRef = decltype(std::declval<decltype(&dnnl_primitive_desc_query_md)>()(nullptr, dnnl_query_src_md, 0));

#if DNNL_VERSION_MAJOR == 2
class Layout {
 public:
  Layout(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
    const dnnl_dims_t dims{rows, columns};
    const dnnl_dims_t strides{row_stride, column_stride};
    check_status(api().memory_desc_init_by_strides(&layout_, 2, dims, dnnl_f32, strides), "a matrix");
  }
  /// Left to the kernel that will read it.
  Layout(std::int64_t rows, std::int64_t columns) {
    const dnnl_dims_t dims{rows, columns};
    check_status(api().memory_desc_init_by_tag(&layout_, 2, dims, dnnl_f32, dnnl_format_tag_any), "a matrix");
  }
  [[nodiscard]] LayoutRef ref() const noexcept { return &layout_; }

 private:
  dnnl_memory_desc_t layout_;
};

dnnl_status_t describe_product(dnnl_primitive_desc_t* result, LayoutRef a, LayoutRef b, LayoutRef d,
                               const Attributes* attributes) {
  dnnl_matmul_desc_t product;
  const dnnl_status_t status = api().matmul_desc_init(&product, a, b, nullptr, d);
  if (status != dnnl_success) return status;
  return api().primitive_desc_create(result, &product, attributes, api().engine, nullptr);
}
#else
class Layout {
 public:
  Layout(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
    const dnnl_dims_t dims{rows, columns};
    const dnnl_dims_t strides{row_stride, column_stride};
    dnnl_memory_desc_t layout = nullptr;
    check_status(api().memory_desc_create_with_strides(&layout, 2, dims, dnnl_f32, strides), "a matrix");
    layout_.reset(layout);
  }
  /// Left to the kernel that will read it.
  Layout(std::int64_t rows, std::int64_t columns) {
    const dnnl_dims_t dims{rows, columns};
    dnnl_memory_desc_t layout = nullptr;
    check_status(api().memory_desc_create_with_tag(&layout, 2, dims, dnnl_f32, dnnl_format_tag_any), "a matrix");
    layout_.reset(layout);
  }
  [[nodiscard]] LayoutRef ref() const noexcept { return layout_.get(); }

 private:
  Owned<std::remove_pointer_t<dnnl_memory_desc_t>> layout_;
};

dnnl_status_t describe_product(dnnl_primitive_desc_t* result, LayoutRef a, LayoutRef b, LayoutRef d,
                               const Attributes* attributes) {
  return api().matmul_desc_create(result, api().engine, a, b, nullptr, d, attributes);
}
#endif

Owned<Queue> make_queue() {
  dnnl_stream_t queue = nullptr;
  check_status(api().stream_create(&queue, api().engine, dnnl_stream_default_flags), "a stream");
  return Owned<Queue>(queue);
}

// Makes the library use the caller's scratchpad, so that runs allocate nothing, and multiply f32 as f32, as its sgemm
// does, whatever the environment says.
Owned<Attributes> make_attributes() {
  dnnl_primitive_attr_t attributes = nullptr;
  check_status(api().attr_create(&attributes), "attributes");
  Owned<Attributes> result(attributes);
  check_status(api().attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "attributes");
  check_status(api().attr_set_fpmath_mode(attributes, dnnl_fpmath_mode_strict), "attributes");
  return result;
}

Owned<Memory> make_memory(LayoutRef layout, void* data) {
  dnnl_memory_t memory = nullptr;
  check_status(api().memory_create(&memory, layout, api().engine, data), "memory");
  return Owned<Memory>(memory);
}

/// A primitive with its scratchpad.
class Operation {
 public:
  explicit Operation(const Description* description) {
    dnnl_primitive_t primitive = nullptr;
    check_status(api().primitive_create(&primitive, description), "a primitive");
    primitive_.reset(primitive);
    const LayoutRef scratchpad = api().primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    scratchpad_ = make_workspace<std::byte>(api().memory_desc_get_size(scratchpad));
    scratchpad_memory_ = make_memory(scratchpad, scratchpad_.get());
  }

  template <std::size_t count>
  void execute(Queue& queue, const std::array<dnnl_exec_arg_t, count>& operands, const char* what) const {
    std::array<dnnl_exec_arg_t, count + 1> arguments;
    std::ranges::copy(operands, arguments.begin());
    arguments.back() = {DNNL_ARG_SCRATCHPAD, scratchpad_memory_.get()};
    check_status(
        api().primitive_execute(primitive_.get(), &queue, static_cast<int>(arguments.size()), arguments.data()), what);
    check_status(api().stream_wait(&queue), what);
  }

 private:
  Owned<Primitive> primitive_;
  Workspace<std::byte> scratchpad_;
  Owned<Memory> scratchpad_memory_;
};

class OneDnnPackedWeights final : public PackedWeights {
 public:
  OneDnnPackedWeights(const GemmSpec& spec, std::size_t members, Order order, Owned<Attributes> attributes,
                      Owned<Description> description)
      : order_(order),
        n_(spec.n),
        k_(spec.k),
        rows_collide_(order == Order::padded && !spec.transpose_b && stored_row(spec) % colliding == 0),
        attributes_(std::move(attributes)),
        description_(std::move(description)),
        data_(make_workspace<std::byte>(api().memory_desc_get_size(layout()))),
        packed_memory_(make_memory(layout(), data_.get())) {
    const std::int64_t ldb = stored_row(spec);
    const Layout stored(k_, n_, spec.transpose_b ? 1 : ldb, spec.transpose_b ? ldb : 1);
    dnnl_primitive_desc_t reorder = nullptr;
    check_status(
        api().reorder_desc_create(&reorder, stored.ref(), api().engine, layout(), api().engine, attributes_.get()),
        "a reorder");
    const Owned<Description> description_of_reorder(reorder);
    pack_.emplace(description_of_reorder.get());
    stored_memory_ = make_memory(stored.ref(), nullptr);
    members_.resize(members);
    for (Member& member : members_) {
      member.queue = make_queue();
      member.products.reserve(most_products);
    }
  }

  /// Describes a GEMM of `m` rows with weights in this layout; null if the order's kernels do not support it.
  static Owned<Description> describe(Order order, std::int64_t m, std::int64_t n, std::int64_t k, LayoutRef weights,
                                     const Attributes* attributes) {
    const Layout a(m, k, k, 1);
    const Layout d(m, n, n, 1);
    dnnl_primitive_desc_t product = nullptr;
    if (describe_product(&product, a.ref(), weights, d.ref(), attributes) != dnnl_success) return nullptr;
    Owned<Description> result(product);
    const char* kernel = nullptr;
    check_status(api().primitive_desc_query(product, dnnl_query_impl_info_str, 0, &kernel), "a query");
    return std::string_view(kernel).starts_with(kernels_of(order)) ? std::move(result) : nullptr;
  }

  bool multiply(int member_number, std::int64_t m, const float* a, const float* b, float* d, bool shared) override {
    if (!pays_for(m, shared)) return false;
    const OneDnn::OneThread one_thread(*OneDnn::load());
    Member& member = members_[static_cast<std::size_t>(member_number)];
    const Product* product = nullptr;
    try {
      product = find(member, m);
      if (product == nullptr || !product->operation) return false;
      pack(member, b);
    } catch (const std::exception&) {  // e.g. out of memory: with unpacked weights it is slower, but correct
      return false;
    }
    set(product->a, a);
    set(product->d, d);
    product->operation->execute<3>(*member.queue,
                                   {{{DNNL_ARG_SRC, product->a.get()},
                                     {DNNL_ARG_WEIGHTS, packed_memory_.get()},
                                     {DNNL_ARG_DST, product->d.get()}}},
                                   "a product");
    return true;
  }

 private:
  struct Product {
    std::int64_t m;
    std::optional<Operation> operation;  ///< none: the order's kernels do not support this m
    Owned<Memory> a;
    Owned<Memory> d;
  };

  /// What each thread needs for itself.
  struct Member {
    Owned<Queue> queue;
    std::vector<Product> products;
  };

  /// Elements from one stored row of B to the next.
  static std::int64_t stored_row(const GemmSpec& spec) noexcept {
    return spec.ldb != 0 ? spec.ldb : spec.transpose_b ? spec.k : spec.n;
  }

  /// Whether packing makes a GEMM of this many rows faster. If the stored rows collide in the cache, an unpacked one
  /// takes twice as long, so that packing pays even for a single GEMM.
  bool pays_for(std::int64_t rows, bool shared) {
    const std::lock_guard lock(packing_);
    if (packed_) return true;
    const bool gains = shared || (rows_collide_ && rows >= fewest_rows_to_pack_for);
    return gains && rows <= most_rows_to_pack_for(order_, n_, k_);
  }

  /// Packs the weights unless they are packed already; other members wait meanwhile.
  void pack(const Member& member, const float* b) {
    const std::lock_guard lock(packing_);
    if (packed_) return;
    set(stored_memory_, b);
    pack_->execute<2>(*member.queue, {{{DNNL_ARG_FROM, stored_memory_.get()}, {DNNL_ARG_TO, packed_memory_.get()}}},
                      "a reorder");
    packed_ = true;
  }

  [[nodiscard]] LayoutRef layout() const {
    return api().primitive_desc_query_md(description_.get(), dnnl_query_weights_md, 0);
  }

  static void set(const Owned<Memory>& memory, const float* data) {
    check_status(api().memory_set_data_handle(memory.get(), const_cast<float*>(data)), "memory");
  }

  /// The GEMM for this m, which is created if necessary; null if there are too many already.
  const Product* find(Member& member, std::int64_t m) const {
    std::vector<Product>& products = member.products;
    const auto found = std::ranges::find(products, m, &Product::m);
    if (found != products.end()) return &*found;
    if (products.size() == most_products) return nullptr;
    Product product{.m = m, .operation = {}, .a = {}, .d = {}};
    if (const Owned<Description> description = describe(order_, m, n_, k_, layout(), attributes_.get())) {
      product.operation.emplace(description.get());
      product.a = make_memory(api().primitive_desc_query_md(description.get(), dnnl_query_src_md, 0), nullptr);
      product.d = make_memory(api().primitive_desc_query_md(description.get(), dnnl_query_dst_md, 0), nullptr);
    }
    return &products.emplace_back(std::move(product));
  }

  const Order order_;
  const std::int64_t n_;
  const std::int64_t k_;
  const bool rows_collide_;
  Owned<Attributes> attributes_;
  Owned<Description> description_;  ///< of one GEMM: it holds the layout of the weights, which all share
  Workspace<std::byte> data_;
  Owned<Memory> stored_memory_;
  Owned<Memory> packed_memory_;
  std::optional<Operation> pack_;
  std::mutex packing_;
  std::vector<Member> members_;
};

}  // namespace

std::unique_ptr<PackedWeights> PackedWeights::make(const GemmSpec& spec, std::size_t members) {
  const bool dense = (spec.lda == 0 || spec.lda == spec.k) && (spec.ldd == 0 || spec.ldd == spec.n);
  const bool plain = spec.dtype == f32 && spec.out_dtype == f32 && !spec.transpose_a && spec.alpha == 1.0F;
  // Of longer rows and columns some releases of oneDNN divide by zero.
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  const bool fits = spec.n > 0 && spec.n <= longest && spec.k > 0 && spec.k <= longest;
  if (!dense || !plain || spec.m == 0 || !fits || load_api() == nullptr) return nullptr;
  const OneDnn::OneThread one_thread(*OneDnn::load());
  Owned<Attributes> attributes = make_attributes();
  for (const Order order : {Order::blocked, Order::padded}) {
    const Layout weights =
        order == Order::blocked ? Layout(spec.k, spec.n) : Layout(spec.k, spec.n, padded_row(spec.n), 1);
    const std::int64_t rows = std::min(spec.m, most_rows_to_pack_for(order, spec.n, spec.k));
    Owned<Description> description =
        OneDnnPackedWeights::describe(order, rows, spec.n, spec.k, weights.ref(), attributes.get());
    if (!description) continue;
    return std::make_unique<OneDnnPackedWeights>(spec, members, order, std::move(attributes), std::move(description));
  }
  return nullptr;
}

}  // namespace tandem

#else

namespace tandem {

std::unique_ptr<PackedWeights> PackedWeights::make(const GemmSpec&, std::size_t) { return nullptr; }

}  // namespace tandem

#endif
