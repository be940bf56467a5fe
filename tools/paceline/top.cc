#include "tools/paceline/top.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tools/paceline/columns.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/json.h"
#include "tools/paceline/lists.h"
#include "tools/paceline/say.h"
#include "tools/paceline/status_text.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr int kSegmentsShown = 3;
constexpr int kKeysShown = 3;

uint64_t RowsOf(const v1::ShardStatus& shard) {
  return shard.load().pushed_per_s() + shard.load().read_per_s();
}

std::vector<const v1::ShardStatus*> ByLoad(const v1::StatusReply& status) {
  std::vector<const v1::ShardStatus*> shards;
  for (const v1::ShardStatus& shard : status.shards()) shards.push_back(&shard);
  std::ranges::sort(shards, {}, [](const v1::ShardStatus* shard) {
    return std::tuple(~RowsOf(*shard), shard->info().name().size(), shard->info().name());
  });
  return shards;
}

// "17: 12000, 3: 900".
std::string SegmentsText(const v1::ShardLoad& load) {
  std::vector<std::string> texts;
  for (const v1::SegmentLoad& segment : load.segments()) {
    const uint64_t rows = segment.pushed_per_s() + segment.read_per_s();
    if (rows > 0 && texts.size() < kSegmentsShown)
      texts.push_back(absl::StrCat(segment.segment(), ": ", rows));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

// The hottest keys of all its segments, as "emb/42: 11000".
std::string KeysText(const v1::ShardLoad& load, const std::map<uint32_t, std::string>& tables) {
  std::vector<const v1::HotKey*> keys;
  for (const v1::SegmentLoad& segment : load.segments()) {
    for (const v1::HotKey& key : segment.keys()) keys.push_back(&key);
  }
  std::ranges::stable_sort(keys, std::greater<>(), [](const v1::HotKey* key) { return key->rows_per_s(); });
  std::vector<std::string> texts;
  for (const v1::HotKey* key : keys) {
    if (texts.size() == kKeysShown) break;
    const auto table = tables.find(key->table());
    texts.push_back(absl::StrCat(table == tables.end() ? absl::StrCat(key->table()) : table->second, "/",
                                 key->key(), ": ", key->rows_per_s()));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

void Clear() {
  std::fputs("\x1b[H\x1b[2J", stdout);
}

}  // namespace

CLI::App* AddTop(CLI::App& app, TopOptions& options) {
  CLI::App* top = app.add_subcommand(
      "top", "Show live what clients ask of shards, segments and keys, and which segments move");
  AddCoordinatorOption(*top, options.coordinator);
  top->add_flag("--once", options.once, "Show it once, and end");
  top->add_flag("--json", options.json,
                "As JSON, one object each time: StatusReply of proto/paceline/v1/coordinator.proto, of which "
                "version, map_version, segments, shards, tables, moves and load are set");
  top->add_option("--interval", options.interval_s, "Time between two looks")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->footer("Rates are means of the last seconds. Exits with 1, with --once, if no coordinator leads.");
  return top;
}

v1::StatusReply LoadOf(const v1::StatusReply& status) {
  v1::StatusReply load;
  load.set_version(status.version());
  load.set_map_version(status.map_version());
  load.set_segments(status.segments());
  *load.mutable_shards() = status.shards();
  *load.mutable_tables() = status.tables();
  if (status.has_moves()) *load.mutable_moves() = status.moves();
  *load.mutable_load() = status.load();
  return load;
}

std::string TopText(const v1::StatusReply& status) {
  std::map<uint32_t, std::string> tables;
  for (const v1::Table& table : status.tables()) tables[table.id()] = table.name();
  std::string text = absl::StrCat(LoadText(status), "\n");
  Columns columns({"SHARD", "STATE", ">PUSHED/S", ">READ/S", ">BYTES/S", ">BUSY", ">MEMORY", ">PRIMARIES",
                   "SEGMENTS: ROWS/S", "KEYS: ROWS/S"});
  for (const v1::ShardStatus* shard : ByLoad(status)) {
    const v1::ShardLoad& load = shard->load();
    const bool told = shard->has_load();
    columns.Add({shard->info().name(), StateText(*shard), told ? absl::StrCat(load.pushed_per_s()) : "-",
                 told ? absl::StrCat(load.read_per_s()) : "-", told ? BytesText(load.bytes_per_s()) : "-",
                 told ? absl::StrFormat("%.1f %%", load.busy_permille() / 10.0) : "-",
                 BytesText(shard->last().bytes()), absl::StrCat(shard->primaries()), SegmentsText(load),
                 KeysText(load, tables)});
  }
  absl::StrAppend(&text, columns.Text());
  if (status.has_moves()) {
    absl::StrAppend(&text, "Moves: ", MovesText(status.moves()), "; ", status.moves().hand_overs(),
                    " segments are being handed over\n");
  }
  return text;
}

int Top(const TopOptions& options) {
  Coordinator coordinator(options.coordinator);
  const bool screen = !options.once && !options.json && isatty(STDOUT_FILENO) == 1;
  while (true) {
    const absl::StatusOr<v1::StatusReply> status = coordinator.Status(kTimeout);
    if (screen) Clear();
    int code = 0;
    if (!status.ok()) {
      code = Complain(status.status(), options.coordinator);
    } else if (status->standby()) {
      code = Complain("no coordinator leads");
    } else {
      code = Print(options.json ? Json(LoadOf(*status)) : TopText(*status));
    }
    std::fflush(stdout);
    if (options.once || std::ferror(stdout) != 0) return code;
    absl::SleepFor(absl::Seconds(options.interval_s));
  }
}

}  // namespace paceline::tool
