#include "libs/wire/schema_codec.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "libs/table/about.h"

namespace paceline::wire {
namespace {

using google::protobuf::FieldDescriptor;

// What a choice has besides parameters that are fields of its message. An expression's are a list, with
// names.
template <class T>
bool PutList(const T&, google::protobuf::Message*) {
  return false;
}
bool PutList(const table::Expression& rule, google::protobuf::Message* to) {
  auto& out = static_cast<v1::Rule::Expression&>(*to);
  const auto put = [](const std::vector<table::Expression::Named>& all, auto& list) {
    for (const table::Expression::Named& one : all) {
      v1::Rule::Expression::Named& added = *list.Add();
      added.set_name(one.name);
      added.set_value(one.value);
    }
  };
  put(rule.slots, *out.mutable_slots());
  put(rule.params, *out.mutable_params());
  out.set_code(rule.code);
  return true;
}
template <class T>
bool TakeList(const google::protobuf::Message&, T&) {
  return false;
}
bool TakeList(const google::protobuf::Message& message, table::Expression& rule) {
  const auto& from = static_cast<const v1::Rule::Expression&>(message);
  for (const auto& one : from.slots()) rule.slots.emplace_back(one.name(), one.value());
  for (const auto& one : from.params()) rule.params.emplace_back(one.name(), one.value());
  rule.code = from.code();
  return true;
}

// A rule's field in its oneof, and a parameter's in its message, is numbered by its place in
// libs/table/about.h.
template <class Choice, class Message>
void Put(const Choice& choice, Message* out) {
  const int number = static_cast<int>(choice.index()) + 1;
  google::protobuf::Message* to =
      out->GetReflection()->MutableMessage(out, out->GetDescriptor()->FindFieldByNumber(number));
  if (std::visit([to](const auto& chosen) { return PutList(chosen, to); }, choice)) return;
  table::EachParameter(choice, [to, field = 0](const table::Parameter&, float value) mutable {
    to->GetReflection()->SetFloat(to, to->GetDescriptor()->FindFieldByNumber(++field), value);
  });
}

// The alternative that is set; nullopt: none, or one that this version does not know.
template <class Choice, class Message, size_t... i>
std::optional<Choice> Take(const Message& message, std::index_sequence<i...>) {
  std::optional<Choice> choice;
  ((static_cast<size_t>(message.kind_case()) == i + 1 ? (void)choice.emplace(std::in_place_index<i>)
                                                      : (void)0),
   ...);
  if (!choice.has_value()) return choice;
  const FieldDescriptor* kind = message.GetDescriptor()->FindFieldByNumber(message.kind_case());
  const google::protobuf::Message& from = message.GetReflection()->GetMessage(message, kind);
  if (std::visit([&from](auto& chosen) { return TakeList(from, chosen); }, *choice)) return choice;
  table::EachParameter(*choice, [&from, field = 0](const table::Parameter&, float& value) mutable {
    value = from.GetReflection()->GetFloat(from, from.GetDescriptor()->FindFieldByNumber(++field));
  });
  return choice;
}

template <class Choice, class Message>
std::optional<Choice> Take(const Message& message) {
  return Take<Choice>(message, std::make_index_sequence<std::variant_size_v<Choice>>());
}

}  // namespace

absl::StatusOr<table::Rule> RuleFromProto(const v1::Rule& rule) {
  if (const std::optional<table::Rule> known = Take<table::Rule>(rule)) return *known;
  const std::vector<absl::string_view> names = table::Names(table::Rule());
  return absl::InvalidArgumentError(
      absl::StrCat("rule: none is set, or one this version does not know; expected ",
                   absl::StrJoin(names.begin(), names.end() - 1, ", "), " or ", names.back()));
}

v1::Rule ToProto(const table::Rule& rule) {
  v1::Rule out;
  Put(rule, &out);
  return out;
}

v1::TableSchema ToProto(const table::Schema& schema) {
  v1::TableSchema out;
  out.set_kind(static_cast<v1::TableKind>(schema.kind));
  out.set_dim(schema.dim);
  out.set_rows(schema.rows);
  Put(schema.init, out.mutable_initialiser());
  Put(schema.rule, out.mutable_rule());
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
  out.init = Take<table::Initialiser>(schema.initialiser()).value_or(table::Zeros{});
  ABSL_ASSIGN_OR_RETURN(out.rule, RuleFromProto(schema.rule()));
  out.aggregated = schema.aggregated();
  out.mean = schema.mean();
  out.accept_non_finite = schema.accept_non_finite();
  out.seed = schema.seed();
  ABSL_RETURN_IF_ERROR(table::Validate(out));
  return out;
}

}  // namespace paceline::wire
