// Package program has the code shared by the users of Go clients.
package program

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Records is the number of records that are stored.
const Records = 200

// RecordsOfALine is the number of records that are stored for each line of standard input.
const RecordsOfALine = 500

// Key returns the key of a record.
func Key(number int) string {
	return fmt.Sprintf("key %d", number)
}

// Value returns the value of a record.
func Value(number int) string {
	return strings.Repeat(fmt.Sprintf("value %d ", number), 20)
}

// Show prints the observations.
func Show(seen any) {
	check(json.NewEncoder(os.Stdout).Encode(seen))
}

// AwaitEnd waits until standard input ends.
func AwaitEnd() {
	_, err := io.ReadAll(os.Stdin)
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
