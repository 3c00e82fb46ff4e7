// A user of sarama, with its defaults. See tests/kafka/programs.py for the scenarios.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"clients/program"
)

func main() {
	bootstrap, scenario, topic := []string{os.Args[1]}, os.Args[2], os.Args[3]
	var seen any
	switch scenario {
	case "admin":
		seen = admin(bootstrap, topic)
	case "administer":
		seen = administer(bootstrap, topic, os.Args[4])
	case "produce":
		seen = produce(bootstrap, topic, os.Args[4], os.Args[5] == "idempotent")
	case "group":
		count, err := strconv.Atoi(os.Args[5])
		check(err)
		group(bootstrap, topic, count)
		return
	case "transactions":
		seen = transactions(bootstrap, topic)
	case "mistake":
		seen = mistake(bootstrap, topic, os.Args[4])
	default:
		panic("unknown scenario " + scenario)
	}
	program.Show(seen)
}

func admin(bootstrap []string, topic string) any {
	admin, err := sarama.NewClusterAdmin(bootstrap, sarama.NewConfig())
	check(err)
	defer admin.Close()
	hour := "3600000"
	detail := sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour},
	}
	check(admin.CreateTopic(topic, &detail, false))
	topics, err := admin.ListTopics()
	check(err)
	entries, err := admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"},
	})
	check(err)
	check(admin.DeleteTopic(topic))
	left, err := admin.ListTopics()
	check(err)
	_, found := left[topic]
	return map[string]any{"partitions": topics[topic].NumPartitions, "config": entries[0].Value, "left": found}
}

func administer(bootstrap []string, topic, retention string) any {
	admin, err := sarama.NewClusterAdmin(bootstrap, sarama.NewConfig())
	check(err)
	defer admin.Close()
	hour, size, odd, literal := "3600000", "2097152", "odd", sarama.AclPatternLiteral
	detail := sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour},
	}
	broker := sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1", ConfigNames: []string{"log.retention.ms"}}
	whole := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}
	acl := sarama.Acl{
		Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
	}
	acls := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourcePatternTypeFilter: literal,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	set := func(kind sarama.ConfigResourceType, name, config string, value *string) func() (any, error) {
		entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value}
		if value == nil {
			entry.Operation = sarama.IncrementalAlterConfigsOperationDelete
		}
		return func() (any, error) {
			entries := map[string]sarama.IncrementalAlterConfigsEntry{config: entry}
			return nil, admin.IncrementalAlterConfig(kind, name, entries, false)
		}
	}
	seen := map[string]any{}
	for _, step := range []struct {
		name string
		call func() (any, error)
	}{
		{"create", func() (any, error) { return nil, admin.CreateTopic(topic, &detail, false) }},
		{"create again", func() (any, error) { return nil, admin.CreateTopic(topic, &detail, false) }},
		{"add partitions", func() (any, error) { return nil, admin.CreatePartitions(topic, 4, nil, false) }},
		{"remove partitions", func() (any, error) { return nil, admin.CreatePartitions(topic, 3, nil, false) }},
		{"alter all", func() (any, error) {
			return nil, admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.bytes": &size}, false)
		}},
		{"alter", set(sarama.TopicResource, topic, "segment.bytes", &size)},
		{"alter wrongly", set(sarama.TopicResource, topic, "compression.type", &odd)},
		{"delete config", set(sarama.TopicResource, topic, "retention.bytes", nil)},
		{"alter broker", set(sarama.BrokerResource, "1", "log.retention.ms", &retention)},
		{"broker configs", func() (any, error) {
			for {
				entries, err := admin.DescribeConfig(broker)
				if err != nil || entries[0].Value == retention {
					return entries, err
				}
			}
		}},
		{"describe topic", func() (any, error) { return admin.DescribeTopics([]string{topic}) }},
		{"configs", func() (any, error) { return admin.DescribeConfig(whole) }},
		{"reset broker", set(sarama.BrokerResource, "1", "log.retention.ms", nil)},
		{"cluster", func() (any, error) {
			brokers, controller, err := admin.DescribeCluster()
			return []any{len(brokers), controller}, err
		}},
		{"directories", func() (any, error) {
			all, err := admin.DescribeLogDirs([]int32{1})
			var found []any
			for _, each := range all[1][0].Topics {
				if each.Topic == topic {
					found = append(found, each)
				}
			}
			return found, err
		}},
		{"acls", func() (any, error) { return admin.ListAcls(acls) }},
		{"create acls", func() (any, error) {
			resource := sarama.Resource{
				ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: literal,
			}
			return nil, admin.CreateACL(resource, acl)
		}},
		{"delete acls", func() (any, error) { return admin.DeleteACL(acls, false) }},
		{"alter offsets", func() (any, error) {
			offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {LeaderEpoch: -1}}}
			return admin.AlterConsumerGroupOffsets(topic, offsets, nil)
		}},
		{"groups", func() (any, error) {
			groups, err := admin.ListConsumerGroups()
			kind, found := groups[topic]
			return []any{kind, found}, err
		}},
		{"group", func() (any, error) { return admin.DescribeConsumerGroups([]string{topic}) }},
		{"offsets", func() (any, error) {
			return admin.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0}})
		}},
		{"delete offset", func() (any, error) { return nil, admin.DeleteConsumerGroupOffset(topic, topic, 0) }},
		{"delete group", func() (any, error) { return nil, admin.DeleteConsumerGroup(topic) }},
		{"delete records", func() (any, error) { return nil, admin.DeleteRecords(topic, map[int32]int64{0: 0}) }},
		{"delete", func() (any, error) { return nil, admin.DeleteTopic(topic) }},
		{"delete again", func() (any, error) { return nil, admin.DeleteTopic(topic) }},
	} {
		answer, err := step.call()
		seen[step.name] = []any{answer, fmt.Sprint(err)}
	}
	return seen
}

func produce(bootstrap []string, topic, codec string, idempotent bool) any {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	check(config.Producer.Compression.UnmarshalText([]byte(codec)))
	if idempotent {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	check(err)
	defer producer.Close()
	var sent []*sarama.ProducerMessage
	for number := range program.Records {
		sent = append(sent, &sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.StringEncoder(program.Key(number)),
			Value: sarama.StringEncoder(program.Value(number)),
		})
	}
	check(producer.SendMessages(sent))
	var places [][2]int64
	for _, each := range sent {
		places = append(places, [2]int64{int64(each.Partition), each.Offset})
	}
	return map[string]any{"places": places}
}

// reader passes on records until there are enough.
type reader struct {
	taken chan *sarama.ConsumerMessage
}

func (r *reader) Setup(session sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(session sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case r.taken <- message:
				session.MarkMessage(message, "")
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func group(bootstrap []string, topic string, count int) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(bootstrap, topic, config)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	reader := &reader{taken: make(chan *sarama.ConsumerMessage)}
	ended := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{topic}, reader); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	var found [][]any
	for len(found) < count {
		select {
		case each := <-reader.taken:
			found = append(found, []any{each.Partition, each.Offset, string(each.Key), string(each.Value)})
		case err := <-ended:
			panic(fmt.Sprintf("the group ended after %d records: %v", len(found), err))
		}
	}
	program.Show(map[string]any{"records": found})
	program.AwaitEnd()
	cancel()
	check(<-ended)
	check(group.Close())
}

func transactions(bootstrap []string, topic string) any {
	producer := transactional(bootstrap, topic)
	defer producer.Close()
	write := func(word string) error {
		for number := range 10 {
			value := sarama.StringEncoder(fmt.Sprintf("%s %d", word, number))
			if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic + "-out", Value: value}); err != nil {
				return err
			}
		}
		return nil
	}
	check(producer.BeginTxn())
	check(write("kept"))
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 5}}}
	check(producer.AddOffsetsToTxn(offsets, topic))
	check(producer.CommitTxn())
	check(producer.BeginTxn())
	check(write("dropped"))
	check(producer.AbortTxn())
	other := transactional(bootstrap, topic)
	defer other.Close()
	check(producer.BeginTxn())
	err := write("fenced")
	if err == nil {
		err = producer.CommitTxn()
	}
	var code sarama.KError
	if !errors.As(err, &code) {
		return map[string]any{"text": fmt.Sprint(err)}
	}
	return map[string]any{"offset": 5, "fenced": int(code)}
}

func transactional(bootstrap []string, id string) sarama.SyncProducer {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	check(err)
	return producer
}

func mistake(bootstrap []string, topic, kind string) any {
	var err error
	if kind == "bad config" {
		admin, failed := sarama.NewClusterAdmin(bootstrap, sarama.NewConfig())
		check(failed)
		defer admin.Close()
		odd := "odd"
		detail := sarama.TopicDetail{
			NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"compression.type": &odd},
		}
		err = admin.CreateTopic(topic, &detail, false)
	} else {
		config := sarama.NewConfig()
		config.Producer.Return.Successes = true
		producer, failed := sarama.NewSyncProducer(bootstrap, config)
		check(failed)
		defer producer.Close()
		message := sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, 5000))}
		_, _, err = producer.SendMessage(&message)
	}
	var code sarama.KError
	if errors.As(err, &code) {
		return map[string]any{"error": int(code), "text": err.Error()}
	}
	var refused *sarama.TopicError
	if errors.As(err, &refused) {
		return map[string]any{"error": int(refused.Err), "text": err.Error()}
	}
	return map[string]any{"text": fmt.Sprint(err)}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
