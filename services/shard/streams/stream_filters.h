#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/filter/coder.h"
#include "libs/filter/filter.h"
#include "libs/wire/frame.h"
#include "paceline/v1/shard.pb.h"
#include "services/shard/context.h"
#include "services/shard/probe.h"
#include "services/shard/streams/key_list_room.h"

namespace paceline::shard {

// Tells the probe what filters do with one kind of traffic.
class FilterProbe final : public filter::Observer {
 public:
  FilterProbe(Probe& probe, Probe::Traffic traffic) : probe_(probe), traffic_(traffic) {}
  void Filtered(filter::Filter filter, uint64_t plain, uint64_t coded, absl::Duration took) override {
    probe_.Filtered(traffic_, filter, plain, coded, took);
  }

 private:
  Probe& probe_;
  const Probe::Traffic traffic_;
};

// The filters of one stream of a client: what was agreed, and what its frames need to be read. Behind it
// frames are plain. For the thread that brings the stream's frames, in their order.
class StreamFilters {
 public:
  StreamFilters(Context& context, Probe::Traffic traffic)
      : context_(context), probe_(context.probe(), traffic), keys_(context.clock(), probe_) {}

  // Answers what the Hello offers, once.
  void Agree(const v1::Hello& hello, v1::Welcome& welcome);
  // The stream has broken: gives its lists and their room back. Reads that wait, and parts that are staged,
  // keep the stream itself much longer.
  void End();

  // Makes a frame plain that came with agreed filters; one with others is left as it is, for the one who
  // takes it apart to refuse. Returns the notes of the list that its keys are, or null. INVALID_ARGUMENT: it
  // cannot be read.
  absl::StatusOr<std::shared_ptr<filter::ListNotes>> Decode(wire::Frame<v1::PushPullRequest>& request);
  absl::StatusOr<std::shared_ptr<filter::ListNotes>> Decode(wire::Frame<v1::PullRequest>& request);

 private:
  absl::StatusOr<std::shared_ptr<filter::ListNotes>> DecodeKeys(filter::FilterSet applied, v1::KeyForm form,
                                                                absl::Cord& keys);

  Context& context_;
  FilterProbe probe_;
  filter::FilterSet agreed_;
  std::unique_ptr<const KeyListRoom::Share> room_;
  filter::KeyDecoder keys_;
};

// Codes the rows of a reply, of `dim` values each, as its reader has asked: rounds them first if that is part
// of it. `values` is their memory, from the first row on, which nobody else uses. `owner` is kept for as long
// as what the rows become.
void EncodeRows(Context& context, filter::FilterSet asked, uint32_t dim,
                const std::shared_ptr<char[]>& values, std::shared_ptr<const void> owner,
                wire::Frame<v1::PullReply>& reply);

}  // namespace paceline::shard
