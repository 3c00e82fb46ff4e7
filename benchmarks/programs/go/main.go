// Measures the message codec of franz-go for benchmarks/languages.py, which describes how the two communicate.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var messages = map[string]func() message{
	"MetadataResponse":    func() message { return kmsg.NewPtrMetadataResponse() },
	"FetchResponse":       func() message { return kmsg.NewPtrFetchResponse() },
	"ProduceRequest":      func() message { return kmsg.NewPtrProduceRequest() },
	"OffsetCommitRequest": func() message { return kmsg.NewPtrOffsetCommitRequest() },
	"ApiVersionsResponse": func() message { return kmsg.NewPtrApiVersionsResponse() },
}

type message interface {
	SetVersion(int16)
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

// task is a message that has been parsed once, and the bytes from which it was parsed.
type task struct {
	version int16
	empty   func() message
	data    []byte
	value   message
}

func open(folder, name string, version int16) (*task, error) {
	empty, known := messages[name]
	if !known {
		return nil, fmt.Errorf("no message %s", name)
	}
	data, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%s-%d", name, version)))
	if err != nil {
		return nil, err
	}
	opened := &task{version, empty, data, nil}
	if opened.value, err = opened.parse(); err != nil {
		return nil, err
	}
	if !bytes.Equal(opened.build(), data) {
		return nil, fmt.Errorf("%s %d: builds different bytes", name, version)
	}
	return opened, nil
}

func (t *task) parse() (message, error) {
	value := t.empty()
	value.SetVersion(t.version)
	return value, value.ReadFrom(t.data)
}

func (t *task) build() []byte {
	return t.value.AppendTo(make([]byte, 0, 512))
}

// Results are stored here, so that the compiler cannot optimize the work away.
var (
	parsed message
	built  []byte
)

func (t *task) run(operation string, calls int) {
	if operation == "parse" {
		for range calls {
			parsed, _ = t.parse()
		}
		return
	}
	for range calls {
		built = t.build()
	}
}

func main() {
	opened := map[string]*task{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var name, operation string
		var version int16
		var calls int
		if _, err := fmt.Sscan(input.Text(), &name, &version, &operation, &calls); err != nil {
			fmt.Println("error", err)
			continue
		}
		key := fmt.Sprintf("%s-%d", name, version)
		if opened[key] == nil {
			one, err := open(os.Args[1], name, version)
			if err != nil {
				fmt.Println("error", err)
				continue
			}
			opened[key] = one
		}
		start := time.Now()
		opened[key].run(operation, calls)
		fmt.Println(time.Since(start).Nanoseconds())
	}
}
