package cli

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"github.com/groupcast/groupcast/sdk"
)

// What a member had written before its session expired is not written again; another stream is.
func TestStreamGoesOnOnStandardOutput(t *testing.T) {
	var to bytes.Buffer
	out := &streamsOut{to: &to, all: make(map[string]*written)}
	receive := func(delivery string, parts ...string) {
		stream, err := out.open(sdk.Incoming{ID: delivery})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if n, err := stream.Write([]byte(part)); n != len(part) || err != nil {
				t.Errorf("write %q: %d, %v", part, n, err)
			}
		}
		if datagrams := stream.(sdk.DatagramWriter); datagrams.WriteDatagram(sdk.Datagram{Payload: []byte(".")}) != nil {
			t.Error("a datagram was not written")
		}
	}
	receive("one", "ab", "c")
	receive("one", "a")
	receive("one", "ab", "cd", "e")
	receive("two", "xy")
	out.forget("one")
	receive("one", "again")
	if want := "abc..de.xy.again."; to.String() != want {
		t.Errorf("wrote %q, want %q", &to, want)
	}
}

// What an earlier session was writing when it expired, to a pipe that nobody read at that moment, is written once.
func TestPieceThatWasBeingWrittenIsThereOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		out := &streamsOut{to: to, all: make(map[string]*written)}
		write := func(parts ...string) {
			stream, err := out.open(sdk.Incoming{ID: "one"})
			for _, part := range parts {
				if err == nil {
					_, err = stream.Write([]byte(part))
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		go write("ab")
		synctest.Wait() // nobody reads: the session is left there
		go func() {
			write("a", "bc", "d")
			_ = to.Close()
		}()
		if got, err := io.ReadAll(from); string(got) != "abcd" || err != nil {
			t.Errorf("standard output has %q: %v", got, err)
		}
	})
}
