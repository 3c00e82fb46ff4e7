// A user of franz-go, with its defaults. See tests/kafka/programs.py for the scenarios.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"clients/program"
)

func main() {
	bootstrap, scenario, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if scenario == "stream" || scenario == "follow" {
		ctx, cancel = context.WithTimeout(context.Background(), 280*time.Second)
		defer cancel()
	}
	var seen any
	switch scenario {
	case "admin":
		seen = admin(ctx, bootstrap, topic)
	case "administer":
		seen = administer(ctx, bootstrap, topic, os.Args[4])
	case "produce":
		seen = produce(ctx, bootstrap, topic, os.Args[4])
	case "group":
		count, err := strconv.Atoi(os.Args[5])
		check(err)
		group(ctx, bootstrap, topic, os.Args[4], count)
		return
	case "stream":
		seen = stream(ctx, bootstrap, topic)
	case "follow":
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		seen = follow(ctx, bootstrap, topic, count)
	case "transactions":
		seen = transactions(ctx, bootstrap, topic)
	case "mistake":
		seen = mistake(ctx, bootstrap, topic, os.Args[4])
	default:
		panic("unknown scenario " + scenario)
	}
	program.Show(seen)
}

func admin(ctx context.Context, bootstrap, topic string) any {
	client := connect(bootstrap)
	defer client.Close()
	admin := kadm.NewClient(client)
	hour := "3600000"
	_, err := admin.CreateTopic(ctx, 3, -1, map[string]*string{"retention.ms": &hour}, topic)
	check(err)
	topics, err := admin.ListTopics(ctx)
	check(err)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	config := ""
	for _, each := range configs[0].Configs {
		if each.Key == "retention.ms" {
			config = each.MaybeValue()
		}
	}
	deleted, err := admin.DeleteTopics(ctx, topic)
	check(err)
	check(deleted.Error())
	// For some seconds, a client answers from its cached metadata, so this takes a new client.
	other := connect(bootstrap)
	defer other.Close()
	left, err := kadm.NewClient(other).ListTopics(ctx)
	check(err)
	return map[string]any{"partitions": len(topics[topic].Partitions), "config": config, "left": left.Has(topic)}
}

func administer(ctx context.Context, bootstrap, topic, retention string) any {
	client := connect(bootstrap)
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx = kadm.WithAuthorizedOps(ctx)
	hour, size, odd, compact := "3600000", "2097152", "odd", "compact"
	created := map[string]*string{"retention.ms": &hour}
	acl := kadm.NewACLs().Topics(topic).Allow("User:a").AllowHosts("*").Operations(kadm.OpRead)
	acl = acl.ResourcePatternType(kadm.ACLPatternLiteral)
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, 0, -1)
	awaitBroker := func() (any, error) {
		for {
			described, err := admin.DescribeBrokerConfigs(ctx, 1)
			if err != nil {
				return nil, err
			}
			for _, each := range described[0].Configs {
				if each.Key == "log.retention.ms" && each.MaybeValue() == retention {
					return each, nil
				}
			}
		}
	}
	alter := func(op kadm.IncrementalOp, name string, value *string) func() (any, error) {
		return func() (any, error) {
			return admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: op, Name: name, Value: value}}, topic)
		}
	}
	seen := map[string]any{}
	for _, step := range []struct {
		name string
		call func() (any, error)
	}{
		{"create", func() (any, error) { return admin.CreateTopic(ctx, 2, -1, created, topic) }},
		{"create again", func() (any, error) { return admin.CreateTopic(ctx, 2, -1, created, topic) }},
		{"add partitions", func() (any, error) { return admin.UpdatePartitions(ctx, 4, topic) }},
		{"remove partitions", func() (any, error) { return admin.UpdatePartitions(ctx, 3, topic) }},
		{"alter", alter(kadm.SetConfig, "segment.bytes", &size)},
		{"append", alter(kadm.AppendConfig, "cleanup.policy", &compact)},
		{"subtract", alter(kadm.SubtractConfig, "cleanup.policy", &compact)},
		{"alter wrongly", alter(kadm.SetConfig, "compression.type", &odd)},
		{"delete config", alter(kadm.DeleteConfig, "retention.ms", nil)},
		{"alter broker", func() (any, error) {
			return admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "log.retention.ms", Value: &retention}}, 1)
		}},
		{"broker configs", awaitBroker},
		{"describe topic", func() (any, error) { return admin.ListTopics(ctx, topic) }},
		{"configs", func() (any, error) { return admin.DescribeTopicConfigs(ctx, topic) }},
		{"reset broker", func() (any, error) {
			return admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}}, 1)
		}},
		{"resources", func() (any, error) { return admin.ListConfigResources(ctx, kadm.ConfigResourceBroker) }},
		{"cluster", func() (any, error) { return admin.BrokerMetadata(ctx) }},
		{"directories", func() (any, error) {
			described, err := admin.DescribeBrokerLogDirs(ctx, 1, kadm.TopicsSet{topic: {0: {}, 1: {}}})
			return described.Sorted(), err
		}},
		{"acls", func() (any, error) { return admin.DescribeACLs(ctx, acl) }},
		{"create acls", func() (any, error) { return admin.CreateACLs(ctx, acl) }},
		{"delete acls", func() (any, error) { return admin.DeleteACLs(ctx, acl) }},
		{"alter offsets", func() (any, error) { return admin.CommitOffsets(ctx, topic, offsets) }},
		{"groups", func() (any, error) {
			groups, err := admin.ListGroups(ctx)
			return groups[topic], err
		}},
		{"group", func() (any, error) { return admin.DescribeGroups(ctx, topic) }},
		{"offsets", func() (any, error) { return admin.FetchOffsets(ctx, topic) }},
		{"lag", func() (any, error) { return admin.Lag(ctx, topic) }},
		{"delete group", func() (any, error) { return admin.DeleteGroup(ctx, topic) }},
		{"ends", func() (any, error) { return admin.ListEndOffsets(ctx, topic) }},
		{"delete records", func() (any, error) { return admin.DeleteRecords(ctx, offsets) }},
		{"delete", func() (any, error) { return admin.DeleteTopics(ctx, topic) }},
		{"delete again", func() (any, error) { return admin.DeleteTopics(ctx, topic) }},
	} {
		answer, err := step.call()
		seen[step.name] = []any{answer, fmt.Sprint(err)}
	}
	return seen
}

func produce(ctx context.Context, bootstrap, topic, codec string) any {
	client := connect(bootstrap, kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[codec]))
	defer client.Close()
	var sent []*kgo.Record
	for number := range program.Records {
		sent = append(sent, &kgo.Record{
			Topic: topic,
			Key:   []byte(program.Key(number)),
			Value: []byte(program.Value(number)),
		})
	}
	check(client.ProduceSync(ctx, sent...).FirstErr())
	var places [][2]int64
	for _, each := range sent {
		places = append(places, [2]int64{int64(each.Partition), each.Offset})
	}
	return map[string]any{"places": places}
}

func group(ctx context.Context, bootstrap, topic, protocol string, count int) {
	options := []kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client := connect(bootstrap, options...)
	defer client.Close()
	var found [][]any
	var handled []*kgo.Record
	for len(found) < count {
		fetches := client.PollRecords(ctx, count-len(found))
		check(fetches.Err())
		for _, each := range fetches.Records() {
			found = append(found, []any{each.Partition, each.Offset, string(each.Key), string(each.Value)})
			handled = append(handled, each)
		}
	}
	check(client.CommitRecords(ctx, handled...))
	program.Show(map[string]any{"records": found})
	program.AwaitEnd()
}

func stream(ctx context.Context, bootstrap, topic string) any {
	client := connect(bootstrap) // acks=all is its default
	defer client.Close()
	var lock sync.Mutex
	failed := []string{}
	sent := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for range program.RecordsOfALine {
			record := &kgo.Record{
				Topic: topic, Key: []byte(program.Key(sent)), Value: []byte(strconv.Itoa(sent)),
			}
			sent++
			client.Produce(ctx, record, func(_ *kgo.Record, err error) {
				if err != nil {
					lock.Lock()
					failed = append(failed, err.Error())
					lock.Unlock()
				}
			})
		}
	}
	check(client.Flush(ctx))
	return map[string]any{"sent": sent, "failed": failed}
}

func follow(ctx context.Context, bootstrap, topic string, count int) any {
	client := connect(
		bootstrap,
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
	)
	defer client.Close()
	found := map[string]bool{}
	read := 0
	for len(found) < count {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		for _, each := range fetches.Records() {
			found[string(each.Value)] = true
			read++
		}
	}
	return map[string]any{"different": len(found), "read": read}
}

func transactions(ctx context.Context, bootstrap, topic string) any {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.TransactionalID(topic), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	check(err)
	defer session.Close()
	write := func(word string) error {
		var sent []*kgo.Record
		for number := range 10 {
			sent = append(sent, &kgo.Record{Topic: topic + "-out", Value: []byte(fmt.Sprintf("%s %d", word, number))})
		}
		return session.ProduceSync(ctx, sent...).FirstErr()
	}
	end := func(try kgo.TransactionEndTry) {
		committed, err := session.End(ctx, try)
		check(err)
		if committed != bool(try) {
			panic("the transaction has ended the other way")
		}
	}
	fetches := session.PollRecords(ctx, 5)
	check(fetches.Err())
	check(session.Begin())
	check(write("kept"))
	end(kgo.TryCommit)
	check(session.Begin())
	check(write("dropped"))
	end(kgo.TryAbort)
	other := connect(bootstrap, kgo.TransactionalID(topic))
	defer other.Close()
	check(other.BeginTransaction())
	check(other.EndTransaction(ctx, kgo.TryAbort))
	_, _, err = other.ProducerID(ctx)
	check(err)
	check(session.Begin())
	err = write("fenced")
	var refused *kerr.Error
	if !errors.As(err, &refused) {
		return map[string]any{"text": fmt.Sprint(err)}
	}
	return map[string]any{"offset": fetches.NumRecords(), "fenced": refused.Code}
}

func mistake(ctx context.Context, bootstrap, topic, kind string) any {
	client := connect(bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	var err error
	switch kind {
	case "unknown topic":
		err = client.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr()
	case "large record":
		err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: make([]byte, 5000)}).FirstErr()
	case "bad config":
		odd := "odd"
		_, err = kadm.NewClient(client).CreateTopic(ctx, 1, -1, map[string]*string{"compression.type": &odd}, topic)
	}
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return map[string]any{"error": refused.Code, "text": err.Error()}
	}
	return map[string]any{"text": fmt.Sprint(err)}
}

func connect(bootstrap string, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	check(err)
	return client
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
