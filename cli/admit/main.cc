// The replay alone, for the oracle and the tests; people use `numafit admit`.
#include <iostream>

#include "cli/admit/admit.h"

int main() {
  std::ios::sync_with_stdio(false);
  return numafit::cli::RunAdmit(std::cin, std::cout);
}
