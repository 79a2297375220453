#include "tensora/nn/loss.h"
#include "tests/nn/golden.h"

namespace tensora::testing {

namespace {

void add_special_losses(Subjects& all) {
  all["kldivloss_batchmean"] = [] {
    return binary(nn::KLDivLoss({.log_target = true, .reduction = "batchmean"}));
  };
  all["ctcloss"] = [] {
    const nn::CTCLoss loss;
    return Subject{std::make_shared<nn::CTCLoss>(loss), [loss](const TensorList& in) {
                     return loss(in.at(0), in.at(1), in.at(2), in.at(3));
                   }};
  };
}

}  // namespace

Subjects loss_subjects() {
  Subjects all;
  for (const char* const r : {"mean", "sum", "none"}) {
    all[std::string("l1loss_") + r] = [r] { return binary(nn::L1Loss({.reduction = r})); };
    all[std::string("mseloss_") + r] = [r] { return binary(nn::MSELoss({.reduction = r})); };
    all[std::string("smoothl1loss_") + r] = [r] {
      return binary(nn::SmoothL1Loss({.beta = 0.5, .reduction = r}));
    };
    all[std::string("huberloss_") + r] = [r] {
      return binary(nn::HuberLoss({.delta = 0.5, .reduction = r}));
    };
    all[std::string("crossentropyloss_") + r] = [r] {
      return binary(nn::CrossEntropyLoss(
          {.weight = ones({3}), .ignore_index = 0, .label_smoothing = 0.1, .reduction = r}));
    };
    all[std::string("nllloss_") + r] = [r] {
      return binary(nn::NLLLoss({.weight = ones({3}), .ignore_index = 0, .reduction = r}));
    };
    all[std::string("poissonnllloss_") + r] = [r] {
      return binary(nn::PoissonNLLLoss({.full = true, .reduction = r}));
    };
    all[std::string("gaussiannllloss_") + r] = [r] {
      return ternary(nn::GaussianNLLLoss({.full = true, .reduction = r}));
    };
    all[std::string("kldivloss_") + r] = [r] { return binary(nn::KLDivLoss({.reduction = r})); };
    all[std::string("bceloss_") + r] = [r] {
      return binary(nn::BCELoss({.weight = ones({3}), .reduction = r}));
    };
    all[std::string("bcewithlogitsloss_") + r] = [r] {
      return binary(
          nn::BCEWithLogitsLoss({.weight = ones({3}), .pos_weight = ones({3}), .reduction = r}));
    };
    all[std::string("marginrankingloss_") + r] = [r] {
      return ternary(nn::MarginRankingLoss({.margin = 0.5, .reduction = r}));
    };
    all[std::string("hingeembeddingloss_") + r] = [r] {
      return binary(nn::HingeEmbeddingLoss({.margin = 0.5, .reduction = r}));
    };
    all[std::string("cosineembeddingloss_") + r] = [r] {
      return ternary(nn::CosineEmbeddingLoss({.margin = 0.1, .reduction = r}));
    };
    all[std::string("softmarginloss_") + r] = [r] {
      return binary(nn::SoftMarginLoss({.reduction = r}));
    };
    all[std::string("multilabelmarginloss_") + r] = [r] {
      return binary(nn::MultiLabelMarginLoss({.reduction = r}));
    };
    all[std::string("multilabelsoftmarginloss_") + r] = [r] {
      return binary(nn::MultiLabelSoftMarginLoss({.weight = ones({3}), .reduction = r}));
    };
    all[std::string("multimarginloss_") + r] = [r] {
      return binary(
          nn::MultiMarginLoss({.weight = ones({3}), .p = 2, .margin = 0.5, .reduction = r}));
    };
    all[std::string("tripletmarginloss_") + r] = [r] {
      return ternary(nn::TripletMarginLoss({.margin = 0.7, .swap = true, .reduction = r}));
    };
    all[std::string("tripletmarginwithdistanceloss_") + r] = [r] {
      return ternary(
          nn::TripletMarginWithDistanceLoss({.margin = 0.7, .swap = true, .reduction = r}));
    };
  }
  add_special_losses(all);
  return all;
}

}  // namespace tensora::testing
