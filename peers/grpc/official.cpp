// The official C++ client: official HOST:PORT ROW ...; does what official.py does.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rocketmq/Logger.h"
#include "rocketmq/Producer.h"
#include "rocketmq/PushConsumer.h"
#include "rocketmq/SimpleConsumer.h"

using namespace ROCKETMQ_NAMESPACE;
using Clock = std::chrono::system_clock;
using Bodies = std::vector<std::string>;

const auto WITHIN = std::chrono::seconds(60);
std::string target;

std::string fresh() {
  static std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

const std::string RUN = fresh();

void check(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

void check(const std::error_code& error) {
  check(!error, error.message());
}

Configuration configuration() {
  return Configuration::newBuilder().withEndpoints(target).withSsl(false).build();
}

MessageBuilder message(const std::string& topic, const std::string& body) {
  auto made = Message::newBuilder();
  made.withTopic(topic).withBody(body).withTag("tag").withKeys({"key-" + body});
  made.withProperties({{"property", "value"}});
  return made;
}

Producer producer(const std::string& topic) {
  auto made = Producer::newBuilder();
  made.withConfiguration(configuration()).withTopics({topic});
  made.withTransactionChecker([](const Message&) { return TransactionState::COMMIT; });
  return made.build();
}

void send(Producer& writer, MessageConstPtr made) {
  std::error_code error;
  writer.send(std::move(made), error);
  check(error);
}

// A simple consumer of a new group, which is there before anything is sent.
class Received {
public:
  explicit Received(const std::string& topic)
      : consumer_(SimpleConsumer::newBuilder()
                      .withGroup("grpc-" + fresh())
                      .withConfiguration(configuration())
                      .withAwaitDuration(std::chrono::seconds(5))
                      .subscribe(topic, FilterExpression("*"))
                      .build()) {
    std::error_code error;
    std::vector<MessageConstSharedPtr> none;
    for (int attempt = 0; attempt < 10; attempt++) {
      error.clear();
      consumer_.receive(1, std::chrono::seconds(15), error, none);
      if (!error || none.empty()) return;
    }
  }

  Bodies until(const Bodies& wanted) {
    Bodies found;
    auto missing = [&] {
      return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& body) {
        return std::find(found.begin(), found.end(), body) == found.end();
      });
    };
    for (auto deadline = Clock::now() + WITHIN; missing();) {
      check(Clock::now() < deadline, "only " + std::to_string(found.size()) + " came");
      std::error_code error;
      std::vector<MessageConstSharedPtr> some;
      consumer_.receive(16, std::chrono::seconds(15), error, some);
      for (const auto& each : some) {
        check(each->tag() == "tag", "tag " + each->tag());
        check(each->properties().at("property") == "value", "another property");
        consumer_.ack(*each, error);
        check(error);
        if (std::count(wanted.begin(), wanted.end(), each->body())) found.push_back(each->body());
      }
    }
    return found;
  }

private:
  SimpleConsumer consumer_;
};

Bodies numbered(const std::string& name, int count) {
  Bodies made;
  for (int number = 0; number < count; number++)
    made.push_back(RUN + name + std::to_string(number));
  return made;
}

void simple() {
  auto bodies = numbered("-", 10);
  Received reader("grpc-normal");
  auto writer = producer("grpc-normal");
  for (const auto& body : bodies) send(writer, message("grpc-normal", body).build());
  auto found = reader.until(bodies);
  std::sort(found.begin(), found.end());
  check(found == bodies, "some came twice");
}

void push() {
  auto bodies = numbered("-push-", 10);
  std::mutex lock;
  std::condition_variable changed;
  std::set<std::string> found, failed;
  auto listener = [&](const Message& received) {
    std::lock_guard<std::mutex> held(lock);
    const auto& body = received.body();
    if (!std::count(bodies.begin(), bodies.end(), body)) return ConsumeResult::SUCCESS;
    if (body.back() == '3' && failed.insert(body).second)
      return ConsumeResult::FAILURE;  // it comes again
    found.insert(body);
    changed.notify_all();
    return ConsumeResult::SUCCESS;
  };
  auto consumer = PushConsumer::newBuilder()
                      .withGroup("grpc-" + fresh())
                      .withConfiguration(configuration())
                      .withListener(listener)
                      .subscribe("grpc-normal", FilterExpression("*"))
                      .build();
  auto writer = producer("grpc-normal");
  std::this_thread::sleep_for(std::chrono::seconds(3));  // the group begins at the topic's end
  for (const auto& body : bodies) send(writer, message("grpc-normal", body).build());
  {
    std::unique_lock<std::mutex> held(lock);
    bool all = changed.wait_for(held, WITHIN, [&] { return found.size() == bodies.size(); });
    check(all, "only " + std::to_string(found.size()) + " came");
    check(failed.size() == 1, "none came again");
  }
  consumer.shutdown();
}

void fifo() {
  auto bodies = numbered("-fifo-", 20);
  Received reader("grpc-fifo");
  auto writer = producer("grpc-fifo");
  for (const auto& body : bodies) send(writer, message("grpc-fifo", body).withGroup("one").build());
  check(reader.until(bodies) == bodies, "not in order");
}

void delay() {
  auto body = RUN + "-delay";
  Received reader("grpc-delay");
  auto writer = producer("grpc-delay");
  auto due = Clock::now() + std::chrono::seconds(4);
  send(writer, message("grpc-delay", body).availableAfter(due).build());
  reader.until({body});
  check(Clock::now() >= due - std::chrono::seconds(1), "too early");
}

void transaction() {
  auto yes = RUN + "-yes", no = RUN + "-no";
  Received reader("grpc-transaction");
  auto writer = producer("grpc-transaction");
  std::error_code error;
  auto rolled_back = writer.beginTransaction();
  writer.send(message("grpc-transaction", no).build(), error, *rolled_back);
  check(error);
  check(rolled_back->rollback(), "not rolled back");
  auto committed = writer.beginTransaction();
  writer.send(message("grpc-transaction", yes).build(), error, *committed);
  check(error);
  check(committed->commit(), "not committed");
  check(reader.until({yes}) == Bodies{yes}, "another came");
}

void orphan() {
  auto body = RUN + "-orphan";
  Received reader("grpc-transaction");
  auto writer = producer("grpc-transaction");
  std::error_code error;
  auto undecided = writer.beginTransaction();
  writer.send(message("grpc-transaction", body).build(), error, *undecided);
  check(error);
  reader.until({body});  // committed when the broker asks
}

int main(int count, char* words[]) {
  getLogger().setConsoleLevel(Level::Error);
  getLogger().init();
  target = words[1];
  const std::map<std::string, std::function<void()>> rows{
      {"simple", simple}, {"push", push},   {"fifo", fifo},
      {"delay", delay},   {"orphan", orphan}, {"transaction", transaction}};
  for (int number = 2; number < count; number++) {
    std::string row = words[number], detail;
    auto began = Clock::now();
    try {
      rows.at(row)();
    } catch (const std::exception& error) {
      detail = error.what();
      if (detail.empty()) detail = "failed";
    }
    std::replace(detail.begin(), detail.end(), '"', '\'');
    auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
    std::cout << "{\"feature\": \"" << row << "\", \"ok\": " << (detail.empty() ? "true" : "false")
              << ", \"ms\": " << took.count() << ", \"detail\": \"" << detail << "\"}" << std::endl;
  }
  std::quick_exit(0);
}
