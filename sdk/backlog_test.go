package sdk

import (
	"encoding/binary"
	"testing"
	"time"

	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// Of what waits for a program that pauses, the latest is kept, in order; what a program holds is not overwritten meanwhile.
func TestBacklogKeepsTheLatest(t *testing.T) {
	b := newBacklog()
	number := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	add := func(n int) { b.add(wiredatagram.Header{Sequence: uint64(n)}, number(n)) }
	add(0)
	one, _ := b.next(unsealed{})
	const last = backlogLength + 500
	for n := 1; n <= last; n++ {
		add(n)
	}
	b.end(time.Minute)
	for want := 0; ; want++ {
		if got := int(binary.BigEndian.Uint32(one.payload)); got != want || one.header.Sequence != uint64(want) {
			t.Fatalf("%d, of sequence %d, in place of %d", got, one.header.Sequence, want)
		}
		if want == 0 {
			want = last - backlogLength
		}
		var none bool
		if one, none = b.next(one); none {
			if want != last {
				t.Errorf("the last was %d, want %d", want, last)
			}
			break
		}
	}
}

// What a slow program has not taken some time after the end it gets no more.
func TestBacklogEndsInTime(t *testing.T) {
	b := newBacklog()
	for n := range uint64(2) {
		b.add(wiredatagram.Header{Sequence: n}, nil)
	}
	b.end(time.Minute)
	if _, none := b.next(unsealed{}); none {
		t.Error("at the end nothing was taken")
	}
	b.end(-time.Second)
	if _, none := b.next(unsealed{}); !none {
		t.Error("after that something was taken")
	}
}

// Who waits is told that nothing comes any more.
func TestClosedBacklogEnds(t *testing.T) {
	b, ended := newBacklog(), make(chan bool)
	go func() {
		_, none := b.next(unsealed{})
		ended <- none
	}()
	time.Sleep(time.Millisecond)
	b.end(time.Minute)
	if !<-ended {
		t.Error("something was taken")
	}
}
