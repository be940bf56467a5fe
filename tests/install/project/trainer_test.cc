// A test without a cluster that needs only the installed package.
#include <paceline/mocks/in_process_cluster.h>

#include <iostream>

int main() {
  auto cluster = paceline::mocks::InProcessCluster::Start({.shards = 2});
  if (!cluster.ok()) return std::cerr << cluster.status() << '\n', 1;
  auto client = (*cluster)->Connect({.job = "test"});
  if (!client.ok()) return std::cerr << client.status() << '\n', 1;
  auto weights =
      (*client)->OpenOrCreate("weights", paceline::Ranged{.rows = 4, .rule = paceline::Sgd{.lr = 0.5f}});
  if (!weights.ok()) return std::cerr << weights.status() << '\n', 1;
  if (!weights->PushRange(0, {1, 2, 3, 4}).ok()) return 1;
  return weights->PullRange(0, 4).value() == std::vector<float>{-0.5f, -1, -1.5f, -2} ? 0 : 1;
}
