#pragma once

#include "examples/lda/options.h"
#include "examples/lib/job_worker.h"

namespace paceline::examples {

// Tables of the model. A row has a count for each topic: of each word, by its id, and, of key 0, of all
// words.
constexpr char kWordsTable[] = "words";
constexpr char kTotalsTable[] = "totals";

// The training of a worker of rank options.worker: reads the documents, joins the job, counts its own at
// clock 0, and then at each clock pulls the counts of a batch's words, draws its tokens' topics anew, pushes
// by how much the counts changed, and ticks. The topics of tokens stay in this process: a worker that joins
// when others have begun fails. `options` must outlive the result.
Training TrainingOf(const LdaOptions& options);

}  // namespace paceline::examples
