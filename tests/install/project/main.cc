// A job of a few lines that needs only the installed package.
#include <paceline/client.h>

#include <iostream>

int main() {
  auto client = paceline::Client::Connect({.job = "counting", .workers = 1});
  if (!client.ok()) return std::cerr << client.status() << '\n', 1;
  auto counts = (*client)->OpenOrCreate("counts", paceline::Sparse{});
  if (!counts.ok()) return std::cerr << counts.status() << '\n', 1;
  if (absl::Status pushed = counts->Push({1, 2, 1}, {1, 1, 1}); !pushed.ok()) {
    return std::cerr << pushed << '\n', 1;
  }
  std::cout << "count of 1: " << counts->Pull({1}).value()[0] << '\n';
  return (*client)->Finish().ok() ? 0 : 1;
}
