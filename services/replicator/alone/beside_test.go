package alone

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A terminal that takes nothing holds up nobody who says something, and goes on with what was said first. Who ends waits for it a moment.
func TestTerminalThatTakesNothingHoldsUpNobody(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	b, begun := writeBeside(to), time.Now()
	for i := range 2 * saidAhead {
		fmt.Fprintf(b, "%d %s\n", i, strings.Repeat("-", 1000)) // a pipe holds 64 of them
	}
	if took := time.Since(begun); took > saidPatience/2 {
		t.Errorf("saying it took %v", took)
	}
	b.flush()
	if took := time.Since(begun); took < saidPatience || took > 5*saidPatience {
		t.Errorf("ending took %v", took)
	}
	said := make(chan string)
	go func() {
		text, _ := io.ReadAll(from)
		said <- string(text)
	}()
	b.end()
	to.Close()
	lines := strings.Split(strings.TrimSpace(<-said), "\n")
	if len(lines) < saidAhead || len(lines) == 2*saidAhead {
		t.Errorf("%d lines are said", len(lines))
	}
	for i, line := range lines[:saidAhead] {
		if !strings.HasPrefix(line, fmt.Sprint(i, " ")) {
			t.Fatalf("line %d is %.20q", i, line)
		}
	}
}
