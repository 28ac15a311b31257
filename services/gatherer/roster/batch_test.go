package roster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// commits is a stream whose commits are counted.
type commits struct {
	*fixture
	to *roster.Upload
	n  int
}

// countCommits runs a test, in simulated time, with a stream.
func countCommits(t *testing.T, run func(c *commits)) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{fixture: start(t, policy.Policy{}, nil)}
		c.CommitWith(func(to sink.Sink) (uint64, error) {
			c.n++
			return to.Commit()
		})
		c.to = c.open(c.attach("alice"), stream("log")).Upload
		run(c)
	})
}

// come has bytes come, and waits until all is done that is to be done at once.
func (c *commits) come(bytes int) {
	c.Helper()
	c.must(c.to.Came(make([]byte, bytes)))
	synctest.Wait()
}

func (c *commits) want(n int, acked int) {
	c.Helper()
	if got := c.to.Answer().Ack; c.n != n || got != uint64(acked) {
		c.Fatalf("%d commits, and %d bytes are said to be on disk; want %d, and %d", c.n, got, n, acked)
	}
}

// Many small pieces that come at once share a commit: there is one as soon as 16 MiB have come, and not before.
func TestPiecesShareACommit(t *testing.T) {
	countCommits(t, func(c *commits) {
		const piece, batch = 256 << 10, 16 << 20
		for i := range 4 * batch / piece {
			c.come(piece)
			whole := (i + 1) * piece / batch
			c.want(whole, whole*batch)
		}
	})
}

// What comes slowly shares commits, too: of lines that come every 60 ms, four are committed when the first of them has waited for 200 ms,
// however little that is.
func TestLinesShareACommit(t *testing.T) {
	countCommits(t, func(c *commits) {
		const line, batch = 100, 4
		for i := range 10 * batch {
			c.come(line)
			time.Sleep(60 * time.Millisecond) // in the bubble
			synctest.Wait()
			whole := (i + 1) / batch
			c.want(whole, whole*batch*line)
		}
	})
}
