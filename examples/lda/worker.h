#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "examples/lda/options.h"
#include "examples/lib/job_worker.h"

namespace paceline::examples {

// Tables of the model. A row has a count for each topic: of each word, by its id, and, of key 0, of all
// words.
constexpr char kWordsTable[] = "words";
constexpr char kTotalsTable[] = "totals";
// With --work queue: the topics of tokens, as TokenTopics has them.
constexpr char kTokensTable[] = "token_topics";

// The training of a worker of rank options.worker: reads the documents, joins the job, and then at each clock
// pulls the counts of a batch's words, draws its tokens' topics anew, pushes by how much the counts changed,
// and ticks. `options` must outlive the result.
//
// - With --work split its documents are its own, and the topics of their tokens stay in this process. It
//   counts them at clock 0; a worker that joins when others have begun fails.
// - With --work queue items are documents, and each pass begins an item when the pass before is done with it.
//   The first pass counts. The topics are pulled and pushed with the counts, so that any worker may have a
//   document next.
//
// A push of several rows is not one change. So if a worker is killed amid a batch, the counts may have some
// of its words as they became, and the topics some as they were: by no more tokens than those of the
// documents that `paceline status` counts as perhaps trained again. RepairCounts makes them agree.
Training TrainingOf(const LdaOptions& options);

// Adds to the counts by how much they are to change: `words` has a row for each word of the vocabulary. By a
// client of its own, once all workers have finished.
absl::Status RepairCounts(const LdaOptions& options, absl::Span<const float> words,
                          absl::Span<const float> totals);

}  // namespace paceline::examples
