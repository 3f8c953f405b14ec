// A load of bare calls: official load HOST:PORT TOPIC GROUP IN_FLIGHT
// Commands come on standard input, "send COUNT" or "receive COUNT", and a line of JSON
// answers each. The group begins before the first of them, while the topic is empty.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const connections = 4

type load struct {
	stubs        []v2.MessagingServiceClient
	topic, group *v2.Resource
	inFlight     int
	number       atomic.Int64
}

func (l *load) context(within time.Duration) (context.Context, context.CancelFunc) {
	made := metadata.AppendToOutgoingContext(context.Background(),
		"x-mq-client-id", "load@1@0@x", "x-mq-language", "GO", "x-mq-client-version", "5.1.3",
		"x-mq-protocol", "v2", "x-mq-request-id", "00000000-0000-0000-0000-000000000000",
		"x-mq-date-time", "20260101T000000Z")
	return context.WithTimeout(made, within)
}

func (l *load) introduce() {
	long, _ := l.context(24 * time.Hour)
	stream, err := l.stubs[0].Telemetry(long)
	check(err)
	settings := &v2.Settings{
		ClientType:     v2.ClientType_SIMPLE_CONSUMER.Enum(),
		RequestTimeout: durationpb.New(3 * time.Second),
		PubSub: &v2.Settings_Subscription{Subscription: &v2.Subscription{
			Group: l.group,
			Subscriptions: []*v2.SubscriptionEntry{{
				Topic:      l.topic,
				Expression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"},
			}},
		}},
	}
	check(stream.Send(&v2.TelemetryCommand{
		Command: &v2.TelemetryCommand_Settings{Settings: settings}}))
	_, err = stream.Recv()
	check(err)
}

func (l *load) beat() {
	ctx, done := l.context(10 * time.Second)
	defer done()
	_, err := l.stubs[0].Heartbeat(ctx, &v2.HeartbeatRequest{
		Group: l.group, ClientType: v2.ClientType_SIMPLE_CONSUMER})
	check(err)
}

// So many workers, each with a connection, until they are done.
func (l *load) together(work func(stub v2.MessagingServiceClient)) {
	var all sync.WaitGroup
	for number := 0; number < l.inFlight; number++ {
		all.Add(1)
		go func(stub v2.MessagingServiceClient) {
			defer all.Done()
			work(stub)
		}(l.stubs[number%connections])
	}
	all.Wait()
}

func (l *load) send(count int64) map[string]any {
	var left, failed atomic.Int64
	var lock sync.Mutex
	var times []time.Duration
	left.Store(count)
	body := []byte(strings.Repeat("x", 128))
	began := time.Now()
	l.together(func(stub v2.MessagingServiceClient) {
		var mine []time.Duration
		for left.Add(-1) >= 0 {
			sent := time.Now()
			message := &v2.Message{Topic: l.topic, Body: body, SystemProperties: &v2.SystemProperties{
				MessageId:     fmt.Sprintf("01%032X", l.number.Add(1)),
				MessageType:   v2.MessageType_NORMAL,
				BornTimestamp: timestamppb.New(sent),
				BornHost:      "load",
			}}
			ctx, done := l.context(30 * time.Second)
			answer, err := stub.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{message}})
			done()
			if err != nil || answer.Status.Code != v2.Code_OK {
				failed.Add(1)
			}
			mine = append(mine, time.Since(sent))
		}
		lock.Lock()
		times = append(times, mine...)
		lock.Unlock()
	})
	seconds := time.Since(began).Seconds()
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	ms := func(at int) float64 { return float64(times[at].Microseconds()) / 1000 }
	return map[string]any{"messages": count - failed.Load(), "failed": failed.Load(),
		"seconds": seconds, "p50_ms": ms(len(times) / 2), "p99_ms": ms(len(times) * 99 / 100)}
}

// Batches of 32; each message is acknowledged, those of a batch with one call. The time is that of
// the last acknowledgement: receives that find nothing more wait on.
func (l *load) receive(count int64) map[string]any {
	var found, acked, failed, last atomic.Int64
	began := time.Now()
	l.together(func(stub v2.MessagingServiceClient) {
		for found.Load() < count {
			batch := l.pop(stub, 5*time.Second)
			if len(batch) == 0 {
				continue
			}
			found.Add(int64(len(batch)))
			request := &v2.AckMessageRequest{Topic: l.topic, Group: l.group}
			for _, message := range batch {
				request.Entries = append(request.Entries, &v2.AckMessageEntry{
					MessageId:     message.SystemProperties.MessageId,
					ReceiptHandle: message.SystemProperties.GetReceiptHandle(),
				})
			}
			ctx, done := l.context(30 * time.Second)
			answer, err := stub.AckMessage(ctx, request)
			done()
			if err != nil || answer.Status.Code != v2.Code_OK {
				failed.Add(int64(len(batch)))
			} else {
				acked.Add(int64(len(batch)))
				last.Store(int64(time.Since(began)))
			}
		}
	})
	return map[string]any{"messages": acked.Load(), "failed": failed.Load(),
		"seconds": time.Duration(last.Load()).Seconds()}
}

func (l *load) pop(stub v2.MessagingServiceClient, wait time.Duration) []*v2.Message {
	ctx, done := l.context(wait + 10*time.Second)
	defer done()
	stream, err := stub.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{
		Group:              l.group,
		MessageQueue:       &v2.MessageQueue{Topic: l.topic},
		FilterExpression:   &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"},
		BatchSize:          32,
		InvisibleDuration:  durationpb.New(5 * time.Minute),
		LongPollingTimeout: durationpb.New(wait),
	})
	check(err)
	var batch []*v2.Message
	for {
		element, err := stream.Recv()
		if err == io.EOF {
			return batch
		}
		check(err)
		if message := element.GetMessage(); message != nil {
			batch = append(batch, message)
		}
	}
}

func runLoad(target, topic, group, inFlight string) {
	l := &load{topic: &v2.Resource{Name: topic}, group: &v2.Resource{Name: group}}
	l.inFlight, _ = strconv.Atoi(inFlight)
	for number := 0; number < connections; number++ {
		connection, err := grpc.Dial(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		check(err)
		l.stubs = append(l.stubs, v2.NewMessagingServiceClient(connection))
	}
	l.introduce()
	l.beat()
	l.pop(l.stubs[0], 5*time.Second)
	go func() {
		for range time.Tick(5 * time.Second) {
			l.beat()
		}
	}()
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		count, _ := strconv.ParseInt(words[1], 10, 64)
		result := l.send
		if words[0] == "receive" {
			result = l.receive
		}
		line, _ := json.Marshal(result(count))
		fmt.Println(string(line))
	}
}
