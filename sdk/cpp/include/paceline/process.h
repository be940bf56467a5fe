#pragma once

namespace paceline {

// Tunes the whole process, for programs that do little else than train. Call it before anything else in main.
// No client calls it by itself, because the settings belong to the program:
//
//   - malloc keeps freed memory for the next batch. By default glibc returns buffers of megabytes to the
//     system and fetches them again page by page, which takes ten times as long as copying to them.
//   - Abseil, as Debian builds it, searches for deadlocks at each lock. This turns the search off.
//
// Cannot fail. Calling it again has no further effect.
void TuneProcess();

}  // namespace paceline
