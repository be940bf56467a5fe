#include "libs/wire/schema_codec.h"

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::wire {
namespace {

void Set(const table::Initialiser& init, v1::Initialiser* out) {
  if (std::holds_alternative<table::Zeros>(init)) {
    out->mutable_zeros();
  } else if (const auto* constant = std::get_if<table::Constant>(&init)) {
    out->mutable_constant()->set_value(constant->value);
  } else if (const auto* uniform = std::get_if<table::Uniform>(&init)) {
    out->mutable_uniform()->set_low(uniform->low);
    out->mutable_uniform()->set_high(uniform->high);
  } else if (const auto* normal = std::get_if<table::Normal>(&init)) {
    out->mutable_normal()->set_mean(normal->mean);
    out->mutable_normal()->set_stddev(normal->stddev);
  }
}

table::Initialiser InitialiserFromProto(const v1::Initialiser& init) {
  switch (init.kind_case()) {
    case v1::Initialiser::kConstant:
      return table::Constant{init.constant().value()};
    case v1::Initialiser::kUniform:
      return table::Uniform{init.uniform().low(), init.uniform().high()};
    case v1::Initialiser::kNormal:
      return table::Normal{init.normal().mean(), init.normal().stddev()};
    case v1::Initialiser::kZeros:
    case v1::Initialiser::KIND_NOT_SET:
      break;
  }
  return table::Zeros{};
}

void Set(const table::Rule& rule, v1::Rule* out) {
  if (std::holds_alternative<table::Assign>(rule)) {
    out->mutable_assign();
  } else if (std::holds_alternative<table::Add>(rule)) {
    out->mutable_add();
  } else if (const auto* sgd = std::get_if<table::Sgd>(&rule)) {
    out->mutable_sgd()->set_learning_rate(sgd->lr);
  } else if (const auto* adagrad = std::get_if<table::Adagrad>(&rule)) {
    v1::Rule::Adagrad* to = out->mutable_adagrad();
    to->set_learning_rate(adagrad->lr);
    to->set_epsilon(adagrad->epsilon);
    to->set_initial_accumulator(adagrad->initial_accumulator);
  } else if (const auto* ftrl = std::get_if<table::FtrlProximal>(&rule)) {
    v1::Rule::FtrlProximal* to = out->mutable_ftrl_proximal();
    to->set_alpha(ftrl->alpha);
    to->set_beta(ftrl->beta);
    to->set_l1(ftrl->l1);
    to->set_l2(ftrl->l2);
  }
}

}  // namespace

absl::StatusOr<table::Rule> RuleFromProto(const v1::Rule& rule) {
  switch (rule.kind_case()) {
    case v1::Rule::kAssign:
      return table::Assign{};
    case v1::Rule::kAdd:
      return table::Add{};
    case v1::Rule::kSgd:
      return table::Sgd{rule.sgd().learning_rate()};
    case v1::Rule::kAdagrad:
      return table::Adagrad{.lr = rule.adagrad().learning_rate(),
                            .epsilon = rule.adagrad().epsilon(),
                            .initial_accumulator = rule.adagrad().initial_accumulator()};
    case v1::Rule::kFtrlProximal:
      return table::FtrlProximal{.alpha = rule.ftrl_proximal().alpha(),
                                 .beta = rule.ftrl_proximal().beta(),
                                 .l1 = rule.ftrl_proximal().l1(),
                                 .l2 = rule.ftrl_proximal().l2()};
    case v1::Rule::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "rule: none is set, or one this version does not know; "
      "expected assign, add, sgd, adagrad or ftrl_proximal");
}

v1::Rule ToProto(const table::Rule& rule) {
  v1::Rule out;
  Set(rule, &out);
  return out;
}

v1::TableSchema ToProto(const table::Schema& schema) {
  v1::TableSchema out;
  out.set_kind(static_cast<v1::TableKind>(schema.kind));
  out.set_dim(schema.dim);
  out.set_rows(schema.rows);
  Set(schema.init, out.mutable_initialiser());
  Set(schema.rule, out.mutable_rule());
  out.set_aggregated(schema.aggregated);
  out.set_mean(schema.mean);
  out.set_accept_non_finite(schema.accept_non_finite);
  out.set_seed(schema.seed);
  return out;
}

absl::StatusOr<table::Schema> SchemaFromProto(const v1::TableSchema& schema) {
  table::Schema out;
  if (schema.kind() != v1::TABLE_KIND_SPARSE && schema.kind() != v1::TABLE_KIND_RANGED) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: ", static_cast<int>(schema.kind()), "; expected 1 (sparse) or 2 (ranged)"));
  }
  out.kind = static_cast<table::Kind>(schema.kind());
  out.dim = schema.dim();
  out.rows = schema.rows();
  out.init = InitialiserFromProto(schema.initialiser());
  ABSL_ASSIGN_OR_RETURN(out.rule, RuleFromProto(schema.rule()));
  out.aggregated = schema.aggregated();
  out.mean = schema.mean();
  out.accept_non_finite = schema.accept_non_finite();
  out.seed = schema.seed();
  ABSL_RETURN_IF_ERROR(table::Validate(out));
  return out;
}

}  // namespace paceline::wire
