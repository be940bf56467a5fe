#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace paceline {

// The time that operations waited, in seconds, by cause and summed over operations. Two operations that wait
// at the same time both count, so the sums may exceed the elapsed time. Every wait has one of these causes:
// their total is the total time waited.
struct WaitSeconds {
  // Pulls waited because another worker was too far behind.
  double staleness = 0;
  // Pulls waited within the shard, behind other work or behind the client's own pushes.
  double queue = 0;
  // Pulls were on the way, or in this client's queue behind earlier requests.
  double network = 0;
  // Pulls found no shard that could serve them: it was being connected, taken over, moved or started.
  double route = 0;
  // Pushes blocked because too many bytes were unacknowledged (ClientOptions::unacknowledged_bytes_max).
  double back_pressure = 0;
  // Pushes blocked because not all readers had seen enough of what was pushed before (Vap).
  double value_bound = 0;
  // WorkQueue::Next waited for an item.
  double work = 0;
  // Push, Flush and Finish waited until the shards had acknowledged.
  double commit = 0;

  double total() const {
    return staleness + queue + network + route + back_pressure + value_bound + work + commit;
  }
};

// Time that threads waited in calls, or that operations took, in seconds by cause.
struct BlockedSeconds {
  // Another worker was too far behind.
  double staleness = 0;
  // Requests and answers were on the way, or in the queues of either end's system.
  double network = 0;
  // At a shard, behind other work or behind the client's own pushes.
  double queue = 0;
  // A shard read rows or applied updates.
  double apply = 0;
  // A shard waited for its replicas.
  double replication = 0;
  // Too many bytes were unacknowledged, or the shard granted no more.
  double back_pressure = 0;
  // No shard could serve: it was being connected, taken over, moved or started.
  double route = 0;
  // For an item of a work queue.
  double work = 0;
  // For answers of the coordinator.
  double coordinator = 0;
  // Not all readers had seen enough of what was pushed before (Vap).
  double value_bound = 0;

  double total() const {
    return staleness + network + queue + apply + replication + back_pressure + route + work + coordinator +
           value_bound;
  }
};

// Where the time of the client's threads went, summed over the threads that have waited in a call. A thread
// counts from the return of Connect, or else from its first wait, to the end of its last one. It waits within
// calls that block, and within Future::Get and Wait; outside of them it computes. So compute +
// blocked.total() is `all`, and for one thread that is the time that passed. docs/explain.md tells how causes
// are found.
struct TimeSplit {
  uint32_t threads = 0;
  double all = 0;
  double compute = 0;
  BlockedSeconds blocked;
  // The waits of operations while no thread waited for them: pushes and pulls that overlap with computing
  // cost nothing. Summed over operations, so it may exceed `all`.
  BlockedSeconds overlapped;
};

// What went through filters of pushes (push_filter.h). What was not sent, rows_given − rows_sent, was sent as
// a part of later updates of the same rows, or is held back.
struct PushFilterStats {
  uint64_t rows_given = 0;   // pushed
  uint64_t rows_sent = 0;    // of these, and of what was held back; they count in Stats::rows_pushed too
  uint64_t bytes_given = 0;  // keys and values of the rows
  uint64_t bytes_sent = 0;
  uint64_t rows_held = 0;   // held back now, not since the start; rows of which a rest is held back count too
  uint64_t bytes_held = 0;  // memory for these
};

// What a filter of the link has done with keys or values (filters.h), in both directions of the streams.
struct FilterUse {
  uint64_t bytes_plain = 0;  // on the side of the program
  uint64_t bytes_coded = 0;  // on that of the link
  double seconds = 0;        // it took this client; the shards' own time is a metric of theirs
};

// Counters since the client connected, as Client::stats() returns them: a copy that does not change any more.
struct Stats {
  WaitSeconds wait;
  TimeSplit time;

  // Observed staleness of the rows that were read, from a shard or from the cache: key c has the number of
  // rows that were c clocks behind this worker. Counts rows, not calls: a pull of 1,000 rows counts 1,000
  // times. Empty for a client without a clock.
  std::map<uint64_t, uint64_t> staleness_rows;

  // Rows that Push accepted, whether they are committed or not; of a table with a push filter, those that it
  // sent.
  uint64_t rows_pushed = 0;
  // Rows that pulls fetched from shards.
  uint64_t rows_pulled = 0;
  // Rows that pulls found in the client's cache (ClientOptions::cache_bytes_max). Of all rows that were read,
  // the share rows_from_cache / (rows_from_cache + rows_pulled) cost no round trip.
  uint64_t rows_from_cache = 0;
  // Rows that a shard sent because they had changed, for Ssp::refresh and Essp. They do not count in
  // rows_pulled: no pull has read them yet.
  uint64_t rows_refreshed = 0;

  // Bytes of the keys and values that were pushed.
  uint64_t bytes_pushed = 0;
  // Bytes of the keys and values that were fetched from shards.
  uint64_t bytes_pulled = 0;
  // Bytes of the values that the cache served.
  uint64_t bytes_from_cache = 0;
  // Bytes that are pushed and not yet committed: now, not since the start.
  uint64_t bytes_unacknowledged = 0;

  PushFilterStats push_filter;
  // Bytes of the messages that carried pushed keys and values, and of those that asked for rows and brought
  // them: after the filters of the link. Messages that were sent again count again.
  uint64_t link_bytes_pushed = 0;
  uint64_t link_bytes_pulled = 0;
  // By the filter's name: on streams of pushes (rows that they bring back included), and of pulls.
  std::map<std::string, FilterUse> link_push_filters;
  std::map<std::string, FilterUse> link_pull_filters;

  // Parts of pushes and pulls that were sent more than once: after a broken connection, a move or a refusal.
  uint64_t retries = 0;
  // How often a stream to a shard broke.
  uint64_t breaks = 0;

  // Streams to shards that were opened, by what carries them: shared memory (ClientOptions::socket_dir), TCP
  // without gRPC (ClientOptions::direct_streams), gRPC.
  uint64_t streams_shared_memory = 0;
  uint64_t streams_direct = 0;
  uint64_t streams_grpc = 0;
};

}  // namespace paceline
