#include "libs/rpc/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "libs/base/text.h"

namespace paceline::rpc {
namespace {

// The message as a quoted JSON string.
class QuotedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text(message.payload.data(), message.payload.size());
    // Bytes that are not UTF-8 are replaced: logging must never fail.
    const std::string quoted =
        nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<QuotedMessage>(); }
};

// The message in one line: texts from outside cannot begin a line of their own.
class EscapedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string escaped = Escaped({message.payload.data(), message.payload.size()}, kLineBytesMax);
    out.append(escaped.data(), escaped.data() + escaped.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<EscapedMessage>(); }

 private:
  static constexpr size_t kLineBytesMax = 64 * 1024;
};

}  // namespace

absl::Status SetUpLogging(const std::string& format, const std::string& level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off) {  // from_str returns this for a word that it does not know
    return absl::InvalidArgumentError(
        absl::StrCat("log level '", level, "' is unknown; expected trace, debug, info, warn or error"));
  }
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  if (format == "text") {
    formatter->add_flag<EscapedMessage>('K').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %K");
  } else if (format == "json") {
    formatter->add_flag<QuotedMessage>('Q').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","pid":%P,"message":%Q})");
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("log format '", format, "' is unknown; expected text or json"));
  }
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  // Unreadable messages are refused by name. Protobuf would also log a line for each text that is not UTF-8,
  // so that any client could fill the log.
  google::protobuf::SetLogHandler(nullptr);
  return absl::OkStatus();
}

}  // namespace paceline::rpc
