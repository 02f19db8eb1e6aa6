// SPDX-License-Identifier: BSL-1.0
// Sends back what each client sends: one fiber per connection, written as if it blocked. Ends cleanly on SIGINT and SIGTERM.
//
//   echo_server [--listen ADDRESS:PORT] [--workers N] [--idle-seconds S] [--self-test]
//
// A client that says nothing for --idle-seconds (60) is dropped. --self-test serves its own clients on a free port, then
// raises SIGTERM, and exits with 0 if every byte came back.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lagom/io.hpp>
#include <lagom/lagom.hpp>
#include <lagom/net.hpp>

namespace {

namespace net = lagom::net;

struct settings {
  net::endpoint listen = net::endpoint::loopback(7007);
  unsigned workers = 0;
  std::chrono::seconds idle{60};
  bool self_test = false;
};

// Throws std::exception for what it does not understand.
settings parse(int argc, char** argv) {
  settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--self-test") {
      s.self_test = true;
      s.listen = net::endpoint::loopback(0);
    } else if (i + 1 == argc) {
      throw std::invalid_argument("unknown option, or a value is missing: " + std::string(option));
    } else if (option == "--listen") {
      s.listen = net::endpoint::parse(argv[++i]);
    } else if (option == "--workers") {
      s.workers = static_cast<unsigned>(std::stoul(argv[++i]));
    } else if (option == "--idle-seconds") {
      s.idle = std::chrono::seconds(std::stol(argv[++i]));
    } else {
      throw std::invalid_argument("unknown option: " + std::string(option));
    }
  }
  return s;
}

void serve(net::tcp_stream stream, std::chrono::seconds idle) {
  std::error_code ec;
  std::array<std::byte, 4096> block;
  while (!ec) {
    stream.set_read_deadline(std::chrono::steady_clock::now() + idle);
    const std::size_t n = stream.read_some(block, ec);
    if (n == 0) break;  // the client is done, silent for too long, or gone
    stream.write_all(std::span(block).first(n), ec);
  }
}

void accept_all(net::tcp_listener& listener, std::chrono::seconds idle) {
  for (std::error_code ec;;) {
    net::tcp_stream stream = listener.accept(ec);
    if (ec) return;  // the listener was closed
    lagom::spawn_detached([stream = std::move(stream), idle]() mutable { serve(std::move(stream), idle); });
  }
}

bool talk(const net::endpoint& server, int number) {
  net::tcp_stream stream = net::tcp_stream::connect(server);
  for (int round = 0; round < 50; ++round) {
    const std::string said = "client " + std::to_string(number) + ", round " + std::to_string(round);
    stream.write_all(std::as_bytes(std::span(said)));
    std::string heard(said.size(), '\0');
    std::span<std::byte> rest = std::as_writable_bytes(std::span(heard));
    while (!rest.empty()) {
      const std::size_t n = stream.read_some(rest);
      if (n == 0) return false;
      rest = rest.subspan(n);
    }
    if (heard != said) return false;
  }
  return true;
}

int run(const settings& s) {
  lagom::io::signal_set signals{SIGINT, SIGTERM};
  net::tcp_listener listener(s.listen);
  const net::endpoint where = listener.local_endpoint();
  std::printf("listening on %s\n", where.to_string().c_str());
  lagom::fiber acceptor = lagom::spawn([&] { accept_all(listener, s.idle); });
  std::atomic<int> right{0};
  std::vector<lagom::fiber> clients;
  for (int i = 0; s.self_test && i < 64; ++i) clients.push_back(lagom::spawn([&, i] { right += talk(where, i); }));
  for (lagom::fiber& client : clients) client.join();
  if (s.self_test) std::raise(SIGTERM);
  std::printf("signal %d, good bye\n", signals.wait());
  listener.close();
  acceptor.join();
  return s.self_test && right != 64 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const settings s = parse(argc, argv);
  const lagom::runtime_options options{.workers = s.workers};
  return lagom::runtime(options).run([&] { return run(s); });
} catch (const std::exception& e) {
  std::fprintf(stderr, "echo_server: %s\nusage: echo_server [--listen ADDRESS:PORT] [--workers N] [--idle-seconds S]\n", e.what());
  return 2;
}
