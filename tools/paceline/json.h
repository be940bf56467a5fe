#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace paceline::tool {

// A message as JSON over several lines, every field of it, by the names of its .proto file.
std::string Json(const google::protobuf::Message& message);

// A list of them.
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
