/* The choice of the operator that computes scaled_dot_product_attention on a device. On the stand-in device the rules are
 * those of a GPU without cuDNN, so that a graph has the operator that it has on such a GPU:
 *
 *   flash       16 bits, heads of at most 256 columns, no mask; causal only where there are as many keys as rows; shared heads
 *   efficient   float32 too, a mask too; as many heads of keys as of the query; heads in whole vectors of 16 bytes
 *   otherwise   products and a softmax
 *
 * Torch looks the function up in a table by device (a dispatch stub), not in the dispatcher; a build without CUDA has no
 * entry for it.
 *
 * In torch: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. Read next: nbcompile/gpu/standin/attention.py
 */
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>

namespace attention {

constexpr int64_t FLASH_WIDTH = 256, VECTOR_BYTES = 16;

struct AttentionInputs {
  const at::Tensor &query, &key, &value;
  bool has_mask, is_causal, shares_heads;
};

bool is_narrow(const at::Tensor &tensor) { return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16; }

/* Return whether the inputs satisfy the requirements of both kernels. */
bool is_plain(const AttentionInputs &inputs) {
  for (const at::Tensor *tensor : {&inputs.query, &inputs.key, &inputs.value}) {
    if (tensor->dim() != 4 || tensor->scalar_type() != inputs.query.scalar_type() || tensor->sym_size(0) != inputs.query.sym_size(0)) return false;
    if (tensor->sym_size(2) == 0 || tensor->sym_stride(3) != 1) return false;
  }
  return inputs.key.sym_size(1) == inputs.value.sym_size(1);
}

bool is_flash(const AttentionInputs &inputs) {
  const auto width = inputs.query.sym_size(3), heads = inputs.query.sym_size(1), others = inputs.key.sym_size(1);
  if (!is_narrow(inputs.query) || inputs.has_mask || width > FLASH_WIDTH) return false;
  if (inputs.key.sym_size(3) != width || inputs.value.sym_size(3) != width) return false;
  if (inputs.is_causal && inputs.query.sym_size(2) != inputs.key.sym_size(2)) return false;
  return heads == others || (inputs.shares_heads && others != 0 && heads % others == 0);
}

bool is_efficient(const AttentionInputs &inputs) {
  const int64_t vector = VECTOR_BYTES / inputs.query.element_size();
  if (!is_narrow(inputs.query) && inputs.query.scalar_type() != at::kFloat) return false;
  return inputs.query.sym_size(1) == inputs.key.sym_size(1) && inputs.query.sym_size(3) % vector == 0 && inputs.value.sym_size(3) % vector == 0;
}

int64_t choice(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value, const std::optional<at::Tensor> &mask,
               double, bool is_causal, std::optional<double>, bool shares_heads) {
  const AttentionInputs inputs{query, key, value, mask.has_value(), is_causal, shares_heads};
  at::Context &settings = at::globalContext();
  if (is_plain(inputs)) {
    if (settings.userEnabledFlashSDP() && is_flash(inputs)) return (int64_t)at::SDPBackend::flash_attention;
    if (settings.userEnabledMemEfficientSDP() && is_efficient(inputs)) return (int64_t)at::SDPBackend::efficient_attention;
  }
  TORCH_CHECK(settings.userEnabledMathSDP(), "No available kernel. Aborting execution.");
  return (int64_t)at::SDPBackend::math;
}

void install() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choice); }

}  // namespace attention
