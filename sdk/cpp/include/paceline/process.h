#pragma once

namespace paceline {

// Settings of the whole process for programs that do little else than train, to be made before anything else
// in main. No client makes them by itself, for they are the program's own:
//
// - Memory that was freed is kept for the next batch. Otherwise glibc gives buffers of megabytes back to the
//   system and fetches them again page by page, which takes ten times as long as to copy to them.
// - Abseil as Debian builds it looks for deadlocks at each lock; this turns it off.
void TuneProcess();

}  // namespace paceline
