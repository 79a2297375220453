#include "tensora/nn.h"
#include "tests/nn/golden.h"

namespace tensora::testing {

namespace {

void add_linear_layers(Subjects& all) {
  all["linear"] = [] { return unary(nn::Linear(4, 3)); };
  all["linear_no_bias"] = [] { return unary(nn::Linear(4, 2, {.bias = false})); };
  all["bilinear"] = [] { return binary(nn::Bilinear(3, 4, 2)); };
  all["identity"] = [] { return unary(nn::Identity()); };
  all["flatten"] = [] { return unary(nn::Flatten()); };
  all["flatten_from_0"] = [] { return unary(nn::Flatten({.start_dim = 0, .end_dim = 1})); };
  all["unflatten"] = [] { return unary(nn::Unflatten(1, {2, 3})); };
}

void add_convolutions(Subjects& all) {
  all["conv1d"] = [] { return unary(nn::Conv1d(2, 4, 3, {.stride = 2, .padding = 1})); };
  all["conv1d_same_circular"] = [] {
    return unary(nn::Conv1d(2, 2, 4, {.padding = "same", .padding_mode = "circular"}));
  };
  all["conv1d_unbatched"] = [] { return unary(nn::Conv1d(2, 3, 2)); };
  all["conv2d"] = [] { return unary(nn::Conv2d(2, 4, 3)); };
  all["conv2d_all"] = [] {
    return unary(nn::Conv2d(
        4, 4, {3, 2},
        {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2, .bias = false}));
  };
  all["conv2d_same"] = [] {
    return unary(nn::Conv2d(2, 2, {3, 2}, {.padding = "same", .dilation = 2}));
  };
  all["conv2d_valid"] = [] { return unary(nn::Conv2d(2, 2, 3, {.padding = "valid"})); };
  all["conv2d_reflect"] = [] {
    return unary(nn::Conv2d(2, 2, 3, {.padding = {1, 2}, .padding_mode = "reflect"}));
  };
  all["conv2d_replicate"] = [] {
    return unary(nn::Conv2d(1, 2, 3, {.padding = 1, .padding_mode = "replicate"}));
  };
  all["conv3d"] = [] { return unary(nn::Conv3d(1, 2, 2, {.padding = 1})); };
  all["conv3d_circular"] = [] {
    return unary(nn::Conv3d(1, 1, 3, {.padding = {0, 1, 2}, .padding_mode = "circular"}));
  };
  all["conv_transpose1d"] = [] { return unary(nn::ConvTranspose1d(2, 3, 3, {.stride = 2})); };
  all["conv_transpose2d"] = [] {
    return unary(nn::ConvTranspose2d(
        2, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  };
  all["conv_transpose2d_dilated"] = [] {
    return unary(nn::ConvTranspose2d(2, 1, {2, 3}, {.bias = false, .dilation = 2}));
  };
  all["conv_transpose3d"] = [] { return unary(nn::ConvTranspose3d(1, 2, 2)); };
}

void add_pools(Subjects& all) {
  all["max_pool1d"] = [] { return unary(nn::MaxPool1d(2)); };
  all["avg_pool1d"] = [] { return unary(nn::AvgPool1d(2)); };
  all["lp_pool1d"] = [] { return unary(nn::LPPool1d(2, 2)); };
  all["adaptive_max_pool1d"] = [] { return unary(nn::AdaptiveMaxPool1d(2)); };
  all["adaptive_avg_pool1d"] = [] { return unary(nn::AdaptiveAvgPool1d(3)); };
  all["max_pool2d"] = [] { return unary(nn::MaxPool2d(2)); };
  all["avg_pool2d"] = [] { return unary(nn::AvgPool2d(2)); };
  all["lp_pool2d"] = [] { return unary(nn::LPPool2d(2, 2)); };
  all["adaptive_max_pool2d"] = [] { return unary(nn::AdaptiveMaxPool2d(2)); };
  all["adaptive_avg_pool2d"] = [] { return unary(nn::AdaptiveAvgPool2d(3)); };
  all["max_pool3d"] = [] { return unary(nn::MaxPool3d(2)); };
  all["avg_pool3d"] = [] { return unary(nn::AvgPool3d(2)); };
  all["lp_pool3d"] = [] { return unary(nn::LPPool3d(2, 2)); };
  all["adaptive_max_pool3d"] = [] { return unary(nn::AdaptiveMaxPool3d(2)); };
  all["adaptive_avg_pool3d"] = [] { return unary(nn::AdaptiveAvgPool3d(3)); };
  all["max_pool2d_all"] = [] {
    return unary(nn::MaxPool2d(
        {3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {1, 2}, .ceil_mode = true}));
  };
  all["avg_pool2d_all"] = [] {
    return unary(nn::AvgPool2d(
        {3, 2}, {.stride = {2, 1}, .padding = 1, .ceil_mode = true, .count_include_pad = false}));
  };
  all["avg_pool2d_divisor"] = [] { return unary(nn::AvgPool2d(2, {.divisor_override = 3})); };
  all["lp_pool2d_stride"] = [] {
    return unary(nn::LPPool2d(3, 2, {.stride = 1, .ceil_mode = true}));
  };
  all["adaptive_avg_pool2d_none"] = [] { return unary(nn::AdaptiveAvgPool2d({2, -1})); };
  all["adaptive_avg_pool2d_1"] = [] { return unary(nn::AdaptiveAvgPool2d({1, 1})); };
  all["fractional_max_pool2d"] = [] {
    return unary(nn::FractionalMaxPool2d(
        {2, 3}, {.output_size = Shape{3, 2}, .random_samples = zeros({1, 2, 2})}));
  };
  all["fractional_max_pool3d"] = [] {
    return unary(
        nn::FractionalMaxPool3d(2, {.output_ratio = 0.6, .random_samples = zeros({1, 1, 3})}));
  };
  all["max_unpool1d"] = [] { return binary(nn::MaxUnpool1d(2)); };
  all["max_unpool2d"] = [] { return binary(nn::MaxUnpool2d(2, {.stride = 2})); };
}

void add_paddings(Subjects& all) {
  all["zero_pad1d"] = [] { return unary(nn::ZeroPad1d(1)); };
  all["reflection_pad1d"] = [] { return unary(nn::ReflectionPad1d(1)); };
  all["replication_pad1d"] = [] { return unary(nn::ReplicationPad1d(1)); };
  all["circular_pad1d"] = [] { return unary(nn::CircularPad1d(1)); };
  all["constant_pad1d"] = [] { return unary(nn::ConstantPad1d(1, 0.5)); };
  all["zero_pad2d"] = [] { return unary(nn::ZeroPad2d(1)); };
  all["reflection_pad2d"] = [] { return unary(nn::ReflectionPad2d(1)); };
  all["replication_pad2d"] = [] { return unary(nn::ReplicationPad2d(1)); };
  all["circular_pad2d"] = [] { return unary(nn::CircularPad2d(1)); };
  all["constant_pad2d"] = [] { return unary(nn::ConstantPad2d(1, 0.5)); };
  all["zero_pad3d"] = [] { return unary(nn::ZeroPad3d(1)); };
  all["reflection_pad3d"] = [] { return unary(nn::ReflectionPad3d(1)); };
  all["replication_pad3d"] = [] { return unary(nn::ReplicationPad3d(1)); };
  all["circular_pad3d"] = [] { return unary(nn::CircularPad3d(1)); };
  all["constant_pad3d"] = [] { return unary(nn::ConstantPad3d(1, 0.5)); };
  all["zero_pad2d_sides"] = [] { return unary(nn::ZeroPad2d({1, 2, -1, 3})); };
}

void add_norms(Subjects& all) {
  all["batch_norm1d_train"] = [] { return unary(nn::BatchNorm1d(3)); };
  all["batch_norm1d_eval"] = [] { return unary(nn::BatchNorm1d(3)); };
  all["instance_norm1d"] = [] { return unary(nn::InstanceNorm1d(3)); };
  all["instance_norm1d_all"] = [] {
    return unary(nn::InstanceNorm1d(3, {.affine = true, .track_running_stats = true}));
  };
  all["instance_norm1d_eval"] = [] {
    return unary(nn::InstanceNorm1d(3, {.affine = true, .track_running_stats = true}));
  };
  all["batch_norm2d_train"] = [] { return unary(nn::BatchNorm2d(3)); };
  all["batch_norm2d_eval"] = [] { return unary(nn::BatchNorm2d(3)); };
  all["instance_norm2d"] = [] { return unary(nn::InstanceNorm2d(3)); };
  all["instance_norm2d_all"] = [] {
    return unary(nn::InstanceNorm2d(3, {.affine = true, .track_running_stats = true}));
  };
  all["instance_norm2d_eval"] = [] {
    return unary(nn::InstanceNorm2d(3, {.affine = true, .track_running_stats = true}));
  };
  all["batch_norm3d_train"] = [] { return unary(nn::BatchNorm3d(2)); };
  all["batch_norm3d_eval"] = [] { return unary(nn::BatchNorm3d(2)); };
  all["instance_norm3d"] = [] { return unary(nn::InstanceNorm3d(2)); };
  all["instance_norm3d_all"] = [] {
    return unary(nn::InstanceNorm3d(2, {.affine = true, .track_running_stats = true}));
  };
  all["instance_norm3d_eval"] = [] {
    return unary(nn::InstanceNorm3d(2, {.affine = true, .track_running_stats = true}));
  };
  all["batch_norm1d_cumulative"] = [] {
    return unary(nn::BatchNorm1d(3, {.momentum = std::nullopt}));
  };
  all["batch_norm1d_plain"] = [] {
    return unary(nn::BatchNorm1d(
        3, {.eps = 1e-3, .momentum = 0.5, .affine = false, .track_running_stats = false}));
  };
  all["batch_norm1d_plain_train"] = [] {
    return unary(nn::BatchNorm1d(3, {.track_running_stats = false}));
  };
  all["batch_norm1d_no_bias"] = [] { return unary(nn::BatchNorm1d(3, {.bias = false})); };
  all["instance_norm2d_unbatched"] = [] { return unary(nn::InstanceNorm2d(3, {.affine = true})); };
  all["layer_norm"] = [] { return unary(nn::LayerNorm(4)); };
  all["layer_norm_2"] = [] { return unary(nn::LayerNorm({3, 4}, {.eps = 1e-3, .bias = false})); };
  all["layer_norm_plain"] = [] { return unary(nn::LayerNorm(4, {.elementwise_affine = false})); };
  all["rms_norm"] = [] { return unary(nn::RMSNorm(4)); };
  all["rms_norm_eps"] = [] {
    return unary(nn::RMSNorm({3, 4}, {.eps = 1e-2, .elementwise_affine = false}));
  };
  all["group_norm"] = [] { return unary(nn::GroupNorm(2, 4)); };
  all["group_norm_plain"] = [] {
    return unary(nn::GroupNorm(3, 6, {.eps = 1e-3, .affine = false}));
  };
  all["local_response_norm"] = [] {
    return unary(nn::LocalResponseNorm(3, {.alpha = 0.1, .k = 2}));
  };
}

void add_dropouts(Subjects& all) {
  all["dropout_eval"] = [] { return unary(nn::Dropout(0.3)); };
  all["dropout_zero"] = [] { return unary(nn::Dropout(0, {.inplace = true})); };
  all["dropout1d_eval"] = [] { return unary(nn::Dropout1d(0.3)); };
  all["dropout1d_zero"] = [] { return unary(nn::Dropout1d(0, {.inplace = true})); };
  all["dropout2d_eval"] = [] { return unary(nn::Dropout2d(0.3)); };
  all["dropout2d_zero"] = [] { return unary(nn::Dropout2d(0, {.inplace = true})); };
  all["dropout3d_eval"] = [] { return unary(nn::Dropout3d(0.3)); };
  all["dropout3d_zero"] = [] { return unary(nn::Dropout3d(0, {.inplace = true})); };
  all["alphadropout_eval"] = [] { return unary(nn::AlphaDropout(0.3)); };
  all["alphadropout_zero"] = [] { return unary(nn::AlphaDropout(0, {.inplace = true})); };
  all["featurealphadropout_eval"] = [] { return unary(nn::FeatureAlphaDropout(0.3)); };
  all["featurealphadropout_zero"] = [] {
    return unary(nn::FeatureAlphaDropout(0, {.inplace = true}));
  };
}

void add_activations(Subjects& all) {
  all["relu"] = [] { return unary(nn::ReLU()); };
  all["relu_inplace"] = [] { return unary(nn::ReLU({.inplace = true})); };
  all["relu6"] = [] { return unary(nn::ReLU6()); };
  all["relu6_inplace"] = [] { return unary(nn::ReLU6({.inplace = true})); };
  all["selu"] = [] { return unary(nn::SELU()); };
  all["selu_inplace"] = [] { return unary(nn::SELU({.inplace = true})); };
  all["silu"] = [] { return unary(nn::SiLU()); };
  all["silu_inplace"] = [] { return unary(nn::SiLU({.inplace = true})); };
  all["mish"] = [] { return unary(nn::Mish()); };
  all["mish_inplace"] = [] { return unary(nn::Mish({.inplace = true})); };
  all["hardsigmoid"] = [] { return unary(nn::Hardsigmoid()); };
  all["hardsigmoid_inplace"] = [] { return unary(nn::Hardsigmoid({.inplace = true})); };
  all["hardswish"] = [] { return unary(nn::Hardswish()); };
  all["hardswish_inplace"] = [] { return unary(nn::Hardswish({.inplace = true})); };
  all["elu"] = [] { return unary(nn::ELU()); };
  all["elu_inplace"] = [] { return unary(nn::ELU({.inplace = true})); };
  all["celu"] = [] { return unary(nn::CELU()); };
  all["celu_inplace"] = [] { return unary(nn::CELU({.inplace = true})); };
  all["leakyrelu"] = [] { return unary(nn::LeakyReLU()); };
  all["leakyrelu_inplace"] = [] { return unary(nn::LeakyReLU({.inplace = true})); };
  all["rrelu"] = [] { return unary(nn::RReLU()); };
  all["rrelu_inplace"] = [] { return unary(nn::RReLU({.inplace = true})); };
  all["hardtanh"] = [] { return unary(nn::Hardtanh()); };
  all["hardtanh_inplace"] = [] { return unary(nn::Hardtanh({.inplace = true})); };
  all["sigmoid"] = [] { return unary(nn::Sigmoid()); };
  all["tanh"] = [] { return unary(nn::Tanh()); };
  all["logsigmoid"] = [] { return unary(nn::LogSigmoid()); };
  all["softsign"] = [] { return unary(nn::Softsign()); };
  all["tanhshrink"] = [] { return unary(nn::Tanhshrink()); };
  all["softplus"] = [] { return unary(nn::Softplus()); };
  all["hardshrink"] = [] { return unary(nn::Hardshrink()); };
  all["softshrink"] = [] { return unary(nn::Softshrink()); };
  all["gelu"] = [] { return unary(nn::GELU()); };
  all["glu"] = [] { return unary(nn::GLU()); };
  all["prelu"] = [] { return unary(nn::PReLU()); };
  all["elu_alpha"] = [] { return unary(nn::ELU({.alpha = 0.5})); };
  all["celu_alpha"] = [] { return unary(nn::CELU({.alpha = 2})); };
  all["leakyrelu_slope"] = [] { return unary(nn::LeakyReLU({.negative_slope = 0.2})); };
  all["hardtanh_range"] = [] { return unary(nn::Hardtanh({.min_val = -0.5, .max_val = 2})); };
  all["softplus_beta"] = [] { return unary(nn::Softplus({.beta = 2, .threshold = 1.5})); };
  all["gelu_tanh"] = [] { return unary(nn::GELU({.approximate = "tanh"})); };
  all["glu_0"] = [] { return unary(nn::GLU({.dim = 0})); };
  all["threshold"] = [] { return unary(nn::Threshold(0.1, 20)); };
  all["threshold_inplace"] = [] { return unary(nn::Threshold(-1, 2.5, {.inplace = true})); };
  all["prelu_channels"] = [] { return unary(nn::PReLU({.num_parameters = 3, .init = 0.1})); };
  all["softmax"] = [] { return unary(nn::Softmax(1)); };
  all["softmax_last"] = [] { return unary(nn::Softmax(-1)); };
  all["logsoftmax"] = [] { return unary(nn::LogSoftmax(1)); };
  all["logsoftmax_last"] = [] { return unary(nn::LogSoftmax(-1)); };
  all["softmin"] = [] { return unary(nn::Softmin(1)); };
  all["softmin_last"] = [] { return unary(nn::Softmin(-1)); };
  all["softmax2d"] = [] { return unary(nn::Softmax2d()); };
}

void add_embeddings(Subjects& all) {
  all["embedding"] = [] { return unary(nn::Embedding(5, 3)); };
  all["embedding_all"] = [] {
    return unary(nn::Embedding(
        5, 3, {.padding_idx = -4, .max_norm = 0.5, .norm_type = 1, .scale_grad_by_freq = true}));
  };
  all["embedding_bag"] = [] { return unary(nn::EmbeddingBag(5, 3)); };
  all["embedding_bag_sum"] = [] {
    return binary(nn::EmbeddingBag(5, 3, {.mode = "sum", .padding_idx = 2}));
  };
  all["embedding_bag_max"] = [] {
    return binary(nn::EmbeddingBag(5, 3, {.mode = "max", .include_last_offset = true}));
  };
}

void add_shapes(Subjects& all) {
  all["upsample"] = [] { return unary(nn::Upsample({.scale_factor = 2})); };
  all["upsample_size"] = [] {
    return unary(nn::Upsample({.size = Shape{3, 5}, .mode = "bilinear"}));
  };
  all["upsample_factors"] = [] {
    return unary(
        nn::Upsample({.scale_factor = {{2, 1.5}}, .mode = "bicubic", .align_corners = true}));
  };
  all["pixel_shuffle"] = [] { return unary(nn::PixelShuffle(2)); };
  all["pixel_unshuffle"] = [] { return unary(nn::PixelUnshuffle(2)); };
  all["channel_shuffle"] = [] { return unary(nn::ChannelShuffle(2)); };
  all["fold"] = [] { return unary(nn::Fold({3, 4}, 2, {.padding = 1, .stride = 2})); };
  all["unfold"] = [] { return unary(nn::Unfold({2, 3}, {.padding = 1, .stride = 2})); };
  all["cosine_similarity"] = [] { return binary(nn::CosineSimilarity()); };
  all["pairwise_distance"] = [] { return binary(nn::PairwiseDistance()); };
  all["pairwise_distance_1"] = [] {
    return binary(nn::PairwiseDistance({.p = 1, .keepdim = true}));
  };
}

}  // namespace

Subjects layer_subjects() {
  Subjects all;
  add_linear_layers(all);
  add_convolutions(all);
  add_pools(all);
  add_paddings(all);
  add_norms(all);
  add_dropouts(all);
  add_activations(all);
  add_embeddings(all);
  add_shapes(all);
  return all;
}

}  // namespace tensora::testing
