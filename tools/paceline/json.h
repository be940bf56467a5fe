#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace paceline::tool {

// A message as JSON over several lines, with all fields under their names in the .proto file.
std::string Json(const google::protobuf::Message& message);

// A list of messages.
template <class Messages>
std::string JsonList(const Messages& messages) {
  std::string list = "[";
  for (const auto& message : messages) {
    if (list.size() > 1) list += ",";
    list += Json(message);
  }
  return list + "]\n";
}

}  // namespace paceline::tool
