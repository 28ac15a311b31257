package reshape

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

const (
	// SeekPause is how often better parents are looked for.
	SeekPause = 5 * time.Second
	// seekPatience is how long a parent must be better.
	seekPatience = 10 * time.Second
	// seekMost is how many nodes move at a time; after that nobody moves for seekCalm.
	seekMost = 8
	seekCalm = 5 * time.Second
	// seekRest is how long a node that has moved stays the first time; each time it is twice as
	// long, up to mostRest. So in the first ten minutes a node moves five times at most, whatever
	// its links do.
	seekRest = 30 * time.Second
	mostRest = 10 * time.Minute
)

// Seek finds better parents for the nodes of one delivery.
//
// The tree is to have "the capability to reconstruct the structures in response to changing network
// conditions that affect delay and bandwidth utilization" (002 §3.1.2): a node moves to a parent
// that is clearly better (tree.Nearer) and has been so for some time.
type Seek struct {
	since map[string]time.Time // since when there is a better parent
	rests map[string]rests     // of nodes that moved
	calm  time.Time
}

// rests says until when a node stays, and how long that pause is in all.
type rests struct {
	until time.Time
	pause time.Duration
}

// NewSeek returns a search that has seen nothing.
func NewSeek() *Seek { return &Seek{since: map[string]time.Time{}, rests: map[string]rests{}} }

// Next returns the tree with those nodes moved that are to move now, and what they gain. If none is,
// that is the tree that was given. The nodes are as they are known now; mayMove says whether one may move so.
func (s *Seek) Next(t *tree.Tree, nodes []tree.Node, mayMove func(before, after *tree.Tree) bool, now time.Time) (*tree.Tree, []tree.Gain) {
	if now.Before(s.calm) {
		return t, nil
	}
	maps.DeleteFunc(s.rests, func(_ string, of rests) bool { return now.Sub(of.until) >= mostRest }) // its next pause is the first again
	var gains []tree.Gain
	seen := make(map[string]time.Time, len(s.since))
	for _, node := range nodes {
		if now.Before(s.rests[node.Name].until) {
			continue
		}
		after, gain, found := t.Nearer(node)
		if !found || !mayMove(t, after) {
			continue
		}
		since, known := s.since[node.Name]
		if !known {
			since = now
		}
		if now.Sub(since) < seekPatience || len(gains) == seekMost {
			seen[node.Name] = since
			continue
		}
		t, gains = after, append(gains, gain)
		s.rest(node.Name, now)
	}
	if s.since = seen; len(gains) > 0 {
		s.calm = now.Add(seekCalm)
	}
	return t, gains
}

// Stay notes that a node has moved for another reason: it stays for a while, too.
func (s *Seek) Stay(name string, now time.Time) { s.rest(name, now) }

// Keep notes that a node has moved away from a better parent, which served it badly: it stays for the longest pause.
func (s *Seek) Keep(name string, now time.Time) { s.rests[name] = rests{now.Add(mostRest), mostRest} }

// rest makes a node that moved stay for a while.
func (s *Seek) rest(name string, now time.Time) {
	last := s.rests[name]
	pause := min(2*last.pause, mostRest)
	if last.pause == 0 || now.Sub(last.until) >= mostRest {
		pause = seekRest
	}
	s.rests[name] = rests{now.Add(pause), pause}
}
