package simnet

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"time"
)

// record is the log of what happened, as text of which only a hash is kept.
type record struct {
	start time.Time
	sum   uint64
	trace io.Writer
	said  []string // by programs in this instant
	line  []byte
}

// Hash tells two runs apart: it covers every arrival and every fault so far, with the times.
func (n *Network) Hash() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.flush()
	return n.log.sum
}

// Trace writes every further event of the log, one per line.
func (n *Network) Trace(w io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.trace = w
}

// add notes what the network did.
func (r *record) add(w *way, number int, what string, offset int64) {
	line := r.stamp()
	line = append(append(append(line, w.from.name...), '>'), w.to.name...)
	line = append(strconv.AppendInt(append(line, " #"...), int64(number), 10), ' ')
	line = append(append(line, what...), ' ')
	r.keep(strconv.AppendInt(line, offset, 10))
}

// say notes what a program did. In one instant many programs do so in any order, so their lines are sorted first.
func (r *record) say(format string, arguments ...any) {
	r.said = append(r.said, string(r.stamp())+fmt.Sprintf(format, arguments...))
}

func (r *record) flush() {
	slices.Sort(r.said)
	for _, line := range r.said {
		r.keep(append(r.line[:0], line...))
	}
	r.said = r.said[:0]
}

func (r *record) stamp() []byte {
	return append(strconv.AppendInt(r.line[:0], int64(time.Since(r.start)), 10), ' ')
}

func (r *record) keep(line []byte) {
	r.line = append(line, '\n')
	hash := fnv.New64a()
	var before [8]byte
	for i := range before {
		before[i] = byte(r.sum >> (8 * i))
	}
	_, _ = hash.Write(before[:])
	_, _ = hash.Write(r.line)
	r.sum = hash.Sum64()
	if r.trace != nil {
		_, _ = r.trace.Write(r.line)
	}
}
