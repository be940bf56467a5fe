// The coordinator's calls that concern single segments.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/wire/map_codec.h"
#include "services/shard/shard.h"

namespace paceline::shard {

template <class Entry>
void Shard::ForEntries(const google::protobuf::RepeatedPtrField<Entry>& entries,
                       std::function<void(SegmentHost&, const Entry&, size_t index)> visit,
                       Context::Done done) {
  std::vector<std::vector<std::pair<size_t, Entry>>> by_executor(context_.executors().size());
  const auto now = view();
  for (int i = 0; i < entries.size(); ++i) {
    const SegmentId segment(entries[i].segment());
    if (segment.v >= now->segments()) continue;
    by_executor[context_.ExecutorOf(segment)].emplace_back(static_cast<size_t>(i), entries[i]);
  }
  context_.OnEachExecutor(
      [this, by_executor = std::move(by_executor), visit = std::move(visit)](size_t executor) {
        for (const auto& [index, entry] : by_executor[executor])
          visit(context_.host(SegmentId(entry.segment())), entry, index);
      },
      std::move(done));
}

void Shard::Fence(const v1::FenceRequest& request, std::function<void(absl::StatusOr<v1::FenceReply>)> done) {
  if (absl::Status meant = CheckMeant(request); !meant.ok()) return done(std::move(meant));
  auto answers =
      std::make_shared<std::vector<std::optional<v1::FenceReply::Segment>>>(request.segments_size());
  ForEntries<v1::FenceRequest::Segment>(
      request.segments(),
      [this, answers](SegmentHost& host, const v1::FenceRequest::Segment& entry, size_t index) {
        const auto now = view();
        // Nothing is promised while the folder is being marked: the coordinator asks again.
        if (!now->takes_copies && !now->emptied) return;
        v1::FenceReply::Segment& answer = (*answers)[index].emplace();
        if (!now->emptied) {
          answer = host.Fence(entry);
        } else {
          answer.set_segment(entry.segment());
          answer.set_why_not(absl::StrCat(options().name, " has marked its folder as emptied"));
        }
      },
      [answers, done = std::move(done)] {
        v1::FenceReply reply;
        for (auto& answer : *answers)
          if (answer.has_value()) *reply.add_segments() = *std::move(answer);
        done(std::move(reply));
      });
}

void Shard::Recruit(const v1::RecruitRequest& request,
                    std::function<void(absl::StatusOr<v1::RecruitReply>)> done) {
  if (absl::Status meant = CheckMeant(request); !meant.ok()) return done(std::move(meant));
  auto taken = std::make_shared<std::vector<uint8_t>>(request.segments_size());
  ForEntries<v1::RecruitRequest::Segment>(
      request.segments(),
      [this, taken](SegmentHost& host, const v1::RecruitRequest::Segment& entry, size_t index) {
        (*taken)[index] = host.Recruit(Epoch(entry.epoch()), wire::MemberFromProto(entry.learner())) ? 1 : 0;
        context_.VisitSoon();
      },
      [taken, request, done = std::move(done)] {
        v1::RecruitReply reply;
        for (size_t i = 0; i < taken->size(); ++i)
          if ((*taken)[i] != 0) reply.add_taken(request.segments(static_cast<int>(i)).segment());
        done(std::move(reply));
      });
}

void Shard::HandOver(const v1::HandOverRequest& request,
                     std::function<void(absl::StatusOr<v1::HandOverReply>)> done) {
  if (absl::Status meant = CheckMeant(request); !meant.ok()) return done(std::move(meant));
  auto begun = std::make_shared<std::vector<uint8_t>>(request.segments_size());
  ForEntries<v1::HandOverRequest::Segment>(
      request.segments(),
      [this, begun](SegmentHost& host, const v1::HandOverRequest::Segment& entry, size_t index) {
        (*begun)[index] = host.HandOver(Epoch(entry.epoch()), wire::MemberFromProto(entry.to())) ? 1 : 0;
        context_.VisitSoon();
      },
      [this, begun, request, done = std::move(done)] {
        if (links_ != nullptr) links_->SendWishes();
        v1::HandOverReply reply;
        for (size_t i = 0; i < begun->size(); ++i)
          if ((*begun)[i] != 0) reply.add_begun(request.segments(static_cast<int>(i)).segment());
        done(std::move(reply));
      });
}

}  // namespace paceline::shard
