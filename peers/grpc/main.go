// The official Go client: official HOST:PORT ROW ...  See official.py.
// It speaks TLS by default, and trusts any certificate.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	"github.com/google/uuid"
)

const within = 60 * time.Second

var run = uuid.NewString()[:8]

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      os.Args[1],
		ConsumerGroup: group,
		Credentials:   &credentials.SessionCredentials{},
	}
}

func message(topic, body string) *rmq.Message {
	made := &rmq.Message{Topic: topic, Body: []byte(body)}
	made.SetTag("tag")
	made.SetKeys("key-" + body)
	made.AddProperty("property", "value")
	return made
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func producer(topic string) rmq.Producer {
	made, err := rmq.NewProducer(config(""), rmq.WithTopics(topic),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{
			Check: func(*rmq.MessageView) rmq.TransactionResolution { return rmq.COMMIT },
		}))
	check(err)
	check(made.Start())
	return made
}

func reader(topic string) rmq.SimpleConsumer {
	made, err := rmq.NewSimpleConsumer(config("grpc-"+uuid.NewString()),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	check(err)
	check(made.Start())
	made.Receive(context.Background(), 1, 15*time.Second)
	return made
}

func until(consumer rmq.SimpleConsumer, bodies ...string) []string {
	wanted, found := map[string]bool{}, []string{}
	for _, body := range bodies {
		wanted[body] = true
	}
	left, deadline := len(bodies), time.Now().Add(within)
	for left > 0 {
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("only %v of %v", found, bodies))
		}
		views, _ := consumer.Receive(context.Background(), 16, 15*time.Second)
		for _, view := range views {
			if body := string(view.GetBody()); wanted[body] {
				wanted[body] = false
				left--
				found = append(found, body)
				if *view.GetTag() != "tag" || view.GetProperties()["property"] != "value" {
					panic("another tag or property")
				}
			}
			check(consumer.Ack(context.Background(), view))
		}
	}
	return found
}

func numbered(kind string, count int) []string {
	bodies := []string{}
	for number := 0; number < count; number++ {
		bodies = append(bodies, fmt.Sprintf("%s-%s-%d", run, kind, number))
	}
	return bodies
}

func send(writer rmq.Producer, made *rmq.Message) {
	_, err := writer.Send(context.Background(), made)
	check(err)
}

var rows = map[string]func(){
	"simple": func() {
		read, write, bodies := reader("grpc-normal"), producer("grpc-normal"), numbered("simple", 10)
		for _, body := range bodies {
			send(write, message("grpc-normal", body))
		}
		until(read, bodies...)
		check(read.GracefulStop())
		check(write.GracefulStop())
	},
	"push": func() {
		bodies, found, lock := numbered("push", 10), map[string]bool{}, sync.Mutex{}
		consumer, err := rmq.NewPushConsumer(config("grpc-"+uuid.NewString()),
			rmq.WithPushAwaitDuration(5*time.Second),
			rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{"grpc-normal": rmq.SUB_ALL}),
			rmq.WithPushMessageListener(&rmq.FuncMessageListener{
				Consume: func(view *rmq.MessageView) rmq.ConsumerResult {
					lock.Lock()
					defer lock.Unlock()
					found[string(view.GetBody())] = true
					return rmq.SUCCESS
				},
			}),
			rmq.WithPushConsumptionThreadCount(4),
			rmq.WithPushMaxCacheMessageCount(1024))
		check(err)
		check(consumer.Start())
		write := producer("grpc-normal")
		time.Sleep(3 * time.Second)
		for _, body := range bodies {
			send(write, message("grpc-normal", body))
		}
		deadline := time.Now().Add(within)
		for _, body := range bodies {
			for {
				lock.Lock()
				is := found[body]
				lock.Unlock()
				if is {
					break
				}
				if time.Now().After(deadline) {
					panic("not all messages came")
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		check(consumer.GracefulStop())
		check(write.GracefulStop())
	},
	"fifo": func() {
		read, write, bodies := reader("grpc-fifo"), producer("grpc-fifo"), numbered("fifo", 20)
		for _, body := range bodies {
			made := message("grpc-fifo", body)
			made.SetMessageGroup("one")
			send(write, made)
		}
		if found := until(read, bodies...); strings.Join(found, " ") != strings.Join(bodies, " ") {
			panic(fmt.Sprintf("in the order %v", found))
		}
		check(read.GracefulStop())
		check(write.GracefulStop())
	},
	"delay": func() {
		read, write, body := reader("grpc-delay"), producer("grpc-delay"), run+"-delay"
		due := time.Now().Add(4 * time.Second)
		made := message("grpc-delay", body)
		made.SetDelayTimestamp(due)
		send(write, made)
		until(read, body)
		if time.Now().Before(due.Add(-500 * time.Millisecond)) {
			panic("too early")
		}
		check(read.GracefulStop())
		check(write.GracefulStop())
	},
	"transaction": func() {
		read, write := reader("grpc-transaction"), producer("grpc-transaction")
		rolledBack := write.BeginTransaction()
		_, err := write.SendWithTransaction(context.Background(), message("grpc-transaction", run+"-no"), rolledBack)
		check(err)
		check(rolledBack.RollBack())
		committed := write.BeginTransaction()
		_, err = write.SendWithTransaction(context.Background(), message("grpc-transaction", run+"-yes"), committed)
		check(err)
		check(committed.Commit())
		until(read, run+"-yes")
		check(read.GracefulStop())
		check(write.GracefulStop())
	},
	"orphan": func() {
		read, write := reader("grpc-transaction"), producer("grpc-transaction")
		_, err := write.SendWithTransaction(context.Background(), message("grpc-transaction", run+"-orphan"), write.BeginTransaction())
		check(err)
		until(read, run+"-orphan")
		check(read.GracefulStop())
		check(write.GracefulStop())
	},
}

func try(row string) (detail string) {
	defer func() {
		if failure := recover(); failure != nil {
			detail = fmt.Sprint(failure)
		}
	}()
	rows[row]()
	return ""
}

func main() {
	if os.Args[1] == "load" {
		runLoad(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
		return
	}
	wanted := os.Args[2:]
	if len(wanted) == 0 {
		wanted = []string{"simple", "push", "fifo", "delay", "transaction", "orphan"}
	}
	for _, row := range wanted {
		began := time.Now()
		detail := try(row)
		text, _ := json.Marshal(detail)
		fmt.Printf("{\"feature\":%q,\"ok\":%t,\"ms\":%d,\"detail\":%s}\n", row, detail == "", time.Since(began).Milliseconds(), text)
	}
}
