#include "libs/wire/texts.h"

#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/status.h"
#include "libs/base/text.h"

namespace paceline::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Messages that a process writes for people may be longer than texts that people enter.
constexpr size_t kWordsBytesMax = 16 * 1024;

template <size_t kSize>
bool IsOneOf(const std::string& name, const std::array<const char*, kSize>& names) {
  for (const char* one : names) {
    if (name == one) return true;
  }
  return false;
}

absl::Status Check(const FieldDescriptor& field, const std::string& where, const std::string& text) {
  constexpr std::array kNames = {"name", "job", "shard", "snapshot", "shard_name", "snapshots"};
  constexpr std::array kAddresses = {"address", "metrics_address", "peer_address", "coordinator", "leader"};
  constexpr std::array kTexts = {"client", "zone", "version"};
  constexpr std::array kSecrets = {"token", "secret"};
  if (text.empty()) return absl::OkStatus();
  if (IsOneOf(field.name(), kSecrets)) {  // never repeated
    if (CheckText(where, text).ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected what OpenSession returned"));
  }
  if (IsOneOf(field.name(), kNames)) return CheckName(where, text);
  if (IsOneOf(field.name(), kAddresses)) return CheckAddress(where, text);
  if (field.name() == "code")
    return CheckText(where, absl::StrReplaceAll(text, {{"\n", " "}}), kWordsBytesMax);
  return CheckText(where, text, IsOneOf(field.name(), kTexts) ? kTextBytesMax : kWordsBytesMax);
}

// The fields that are texts or may contain some. Most messages have none, and are long.
std::vector<const FieldDescriptor*> FieldsOf(const Descriptor& message, int depth = 0) {
  constexpr int kDepthMax = 16;
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor* field = message.field(i);
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool holds_texts = field->type() == FieldDescriptor::TYPE_MESSAGE && depth < kDepthMax &&
                             !FieldsOf(*field->message_type(), depth + 1).empty();
    if (text || holds_texts) fields.push_back(field);
  }
  return fields;
}

absl::Status CheckAt(const Message& message, const std::string& above) {
  const Reflection& reflection = *message.GetReflection();
  for (const FieldDescriptor* field : FieldsOf(*message.GetDescriptor())) {
    const std::string where = absl::StrCat(above, field->name());
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    std::string scratch;
    for (int i = 0; i < count; ++i) {
      if (text) {
        ABSL_RETURN_IF_ERROR(Check(*field, where,
                                   repeated
                                       ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                                       : reflection.GetStringReference(message, field, &scratch)));
      } else if (repeated || reflection.HasField(message, field)) {
        ABSL_RETURN_IF_ERROR(CheckAt(repeated ? reflection.GetRepeatedMessage(message, field, i)
                                              : reflection.GetMessage(message, field),
                                     absl::StrCat(where, ".")));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTexts(const Message& message) {
  return CheckAt(message, "");
}

}  // namespace paceline::wire
