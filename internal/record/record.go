package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	what    = "groupcast replication"
	version = 1
	// longest is the most bytes of a line.
	longest = 1 << 20
)

// Head is what was replicated, and where.
type Head struct {
	Name      string    `json:"name"`
	Length    uint64    `json:"length"`
	Profile   string    `json:"profile"`
	Datagram  int       `json:"datagram"` // bytes of the largest
	Server    string    `json:"server"`
	Group     string    `json:"group"`
	LAN       string    `json:"lan"` // the network interface that leads to it
	Receivers int       `json:"receivers"`
	Began     time.Time `json:"began"`
}

// Sample is what was sent until a time, and how far the receivers are. Its counts only grow.
type Sample struct {
	Seconds float64 `json:"seconds"` // since it began
	Window  int     `json:"window"`  // packets that may be on their way
	Bytes   uint64  `json:"bytes"`   // of all datagrams to the group
	Packets uint64  `json:"packets"` // with data, or that say where there is none
	Repairs uint64  `json:"repairs"` // of these, sent again, or with parity
	Sent    uint64  `json:"sent"`    // bytes of the source that were sent once at least

	Polls    uint64 `json:"polls"`
	Reports  uint64 `json:"reports"` // answers to these
	Wanted   uint64 `json:"wanted"`  // packets that receivers said they lacked
	Trips    uint64 `json:"trips"`   // stops, for too much was lost
	Timeouts uint64 `json:"timeouts"`

	Receiving int `json:"receiving"` // receivers that go on; those that are silent among them
	Silent    int `json:"silent"`
	Complete  int `json:"complete"`
	Failed    int `json:"failed"`
	GivenUp   int `json:"given_up"`

	Landed uint64  `json:"landed"` // bytes that all of these have, and those that are complete
	Lost   float64 `json:"lost"`   // the largest share of packets that one that goes on has lost
}

// marked is the first line.
type marked struct {
	Record  string `json:"record"`
	Version int    `json:"version"`
	Head
}

// Writer writes a record, each line at once.
type Writer struct{ to io.Writer }

// NewWriter writes the first line.
func NewWriter(to io.Writer, h Head) (*Writer, error) {
	w := &Writer{to}
	return w, w.line(marked{what, version, h})
}

// Write writes a sample.
func (w *Writer) Write(s Sample) error { return w.line(s) }

func (w *Writer) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(text, '\n'))
	return err
}

var (
	// ErrFormat says that a file is no record.
	ErrFormat = errors.New("not a record of a replication")
	// ErrCut says that a record ends within a line, as it may on a disk that is full.
	ErrCut = errors.New("the record is cut: it ends within a line")
	// ErrBroken says that lines within a record are not what a sender writes.
	ErrBroken = errors.New("broken, and left out")
)

// Record is what there is of one.
type Record struct {
	Head
	Samples []Sample
}

// Begins reports whether what comes may be a record, by its first byte: no capture begins with it.
func Begins(from *bufio.Reader) bool {
	first, err := from.Peek(1)
	return err == nil && first[0] == '{'
}

// Read reads a record. If lines are broken, or it is cut, it returns what there is with ErrBroken or ErrCut.
func Read(from *bufio.Reader) (r Record, err error) {
	first, err := line(from)
	var head marked
	if err == nil || errors.Is(err, io.EOF) {
		err = json.Unmarshal(first, &head)
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("%w: %w", ErrFormat, err)
	case head.Record != what:
		return r, ErrFormat
	case head.Version != version:
		return r, fmt.Errorf("%w that this version reads: it has version %d", ErrFormat, head.Version)
	}
	r.Head = head.Head
	broken, where := 0, 0
	for number := 2; ; number++ {
		text, err := line(from)
		isLast := errors.Is(err, io.EOF)
		switch {
		case isLast && len(text) == 0:
			return r, brokenOff(broken, where)
		case err != nil && !isLast:
			return r, errors.Join(brokenOff(broken, where), err)
		case r.add(text):
		case isLast:
			return r, errors.Join(brokenOff(broken, where), ErrCut)
		default:
			if broken++; broken == 1 {
				where = number
			}
		}
	}
}

// add adds the sample of a line, if it is one that follows the one before.
func (r *Record) add(text []byte) bool {
	s, before := Sample{Seconds: -1}, Sample{}
	if len(r.Samples) > 0 {
		before = r.Samples[len(r.Samples)-1]
	}
	if json.Unmarshal(text, &s) != nil || s.Seconds < before.Seconds || s.Bytes < before.Bytes || s.Repairs > s.Packets || s.Window < 0 {
		return false
	}
	r.Samples = append(r.Samples, s)
	return true
}

func brokenOff(lines, first int) error {
	switch lines {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("line %d of the record is %w", first, ErrBroken)
	}
	return fmt.Errorf("%d lines of the record are %w, the first is line %d", lines, ErrBroken, first)
}

// line reads a line, of a bounded length. The last may have no end, and comes with io.EOF.
func line(from *bufio.Reader) (text []byte, err error) {
	for {
		piece, err := from.ReadSlice('\n')
		if text = append(text, piece...); len(text) > longest {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrFormat, longest)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
