#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "libs/base/test_util/status_matchers.h"
#include "paceline/mocks/in_process_cluster.h"

namespace paceline {

// For tests of the client over real gRPC, with a real coordinator and real shards: a cluster of the test's
// own, and a client of it.
class ClusterFixture : public ::testing::Test {
 protected:
  using Cluster = mocks::InProcessCluster;

  // Fails the test if there is no such cluster.
  void StartCluster(const Cluster::Options& options) {
    auto cluster = Cluster::Start(options);
    ASSERT_THAT(cluster, testing::IsOk());
    cluster_ = *std::move(cluster);
  }
  // The same, and connects `client_` to it.
  void StartCluster(const Cluster::Options& options, ClientOptions client) {
    ASSERT_NO_FATAL_FAILURE(StartCluster(options));
    client_ = Connect(std::move(client));
    ASSERT_NE(client_, nullptr);
  }
  // nullptr, and the test has failed.
  std::unique_ptr<Client> Connect(ClientOptions options) const {
    auto client = cluster_->Connect(std::move(options));
    EXPECT_THAT(client, testing::IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
  Table OpenOrCreate(const std::string& name, const TableSchema& schema) {
    auto table = client_->OpenOrCreate(name, schema);
    EXPECT_THAT(table, testing::IsOk());
    return *std::move(table);
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Client> client_;  // ends before the cluster
};

}  // namespace paceline
