// What users of all kinds are let do, through the official Go client of the remoting protocol.
//
//	security NAMESRV plain CASE ...     CASE: row=action,user,secret,topic,group,expected
//
// Actions: send, push. Expected: ok, fails. The client has no
// encryption. One line of JSON a case, as Features.java prints them.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const wait = 40 * time.Second

var number int

type place struct{ namesrv string }

func name(kind string) string {
	number++
	return fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), number)
}

func (at place) send(who primitive.Credentials, topic, body string) error {
	made, err := producer.NewDefaultProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{at.namesrv})),
		producer.WithGroupName(name("producers")),
		producer.WithInstanceName(name("instance")),
		producer.WithCredentials(who),
		producer.WithRetry(0),
	)
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	defer made.Shutdown()
	within, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	result, err := made.SendSync(within, primitive.NewMessage(topic, []byte(body)))
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("%v", result)
	}
	return err
}

func (at place) push(who primitive.Credentials, topic, group string) error {
	made, err := consumer.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{at.namesrv})),
		consumer.WithGroupName(group),
		consumer.WithInstance(name("instance")),
		consumer.WithCredentials(who),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	body, arrived := name("consumed"), make(chan bool, 1000)
	err = made.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, each := range messages {
				if string(each.Body) == body {
					arrived <- true
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	defer made.Shutdown()
	if err = at.send(who, topic, body); err != nil {
		return err
	}
	select {
	case <-arrived:
		return nil
	case <-time.After(wait):
		return fmt.Errorf("it has not come")
	}
}

func main() {
	rlog.SetLogLevel("error")
	at := place{os.Args[1]}
	for _, each := range os.Args[3:] {
		row, rest, _ := strings.Cut(each, "=")
		words := strings.Split(rest, ",")
		who := primitive.Credentials{AccessKey: words[1], SecretKey: words[2]}
		var err error
		if words[0] == "push" {
			err = at.push(who, words[3], words[4])
		} else {
			err = at.send(who, words[3], name("sent"))
		}
		ok, detail := (err == nil) == (words[5] == "ok"), ""
		if !ok {
			detail = fmt.Sprintf("%s expected, found %v", words[5], err)
		}
		line, _ := json.Marshal(map[string]any{"ok": ok, "ms": 0, "detail": detail})
		fmt.Printf("{\"feature\":%q,%s\n", row, line[1:])
	}
}
